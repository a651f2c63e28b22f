"""Runs over a lake and what they publish: what is to be right, and the tests that fail where it is not."""

# number: (what is to be right, tests)
RULES: dict[str, tuple[str, str]] = {
    # Progress, crashes, manifests
    "8.1": (
        "Gold takes silver's last done batch, and the watermark of that batch.",
        "test_changes_of_a_batch_that_is_done_while_gold_runs_are_not_counted_yet"
        " test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark",
    ),
    "8.2": (
        "Gold applies the changes up to the new watermark, and those of new batches that lie below the last "
        "one.",
        "test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark"
        " test_what_comes_late_brings_the_changes_of_its_row_alone_to_the_driver"
        " test_windows_that_cut_a_commit_in_two_and_late_rows_give_the_same",
    ),
    "8.3": (
        "Progress is in the ops log, written behind the data: a run that dies at any write comes to the same"
        " lake.",
        "test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake"
        " test_random_sigkills_of_a_run_over_a_topic_change_nothing",
    ),
    "8.4": (
        "A run with nothing new writes nothing.",
        "test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake"
        " test_the_demo_lands_a_topic_exactly_once_and_a_second_run_adds_nothing",
    ),
    "8.5": (
        "A table without changes in a run's window gets no new version.",
        "test_a_table_without_changes_in_the_window_is_not_written",
    ),
    "8.6": (
        "Before its first write a run records what it is about to publish, and a digest of the decoder's "
        "options, the server's rules and the YAMLs that it does so under.",
        "test_a_smaller_watermark_after_a_death_before_the_manifest_takes_back_what_was_merged"
        " test_what_a_run_wrote_under_another_yaml_is_taken_back_and_told"
        " test_another_option_rule_or_yaml_is_another_digest",
    ),
    "8.7": (
        "Tables of a run that died without its manifest go back to the published version before they are "
        "written, also where the watermark is smaller now; that it wrote under other options, rules or YAMLs "
        "is told.",
        "test_a_smaller_watermark_after_a_death_before_the_manifest_takes_back_what_was_merged"
        " test_a_death_between_the_write_and_the_manifest_hides_no_version_of_a_row"
        " test_what_a_run_wrote_under_another_yaml_is_taken_back_and_told"
        " test_a_run_that_died_under_others_is_told_and_no_other_one"
        " test_a_table_that_is_held_below_what_a_dead_run_has_merged_stands_before_its_ddl",
    ),
    "8.8": (
        "Tables that somebody has changed by hand go back to the published version too; what maintenance has"
        " done stays.",
        "test_rows_that_somebody_deleted_by_hand_are_back_with_the_next_change"
        " test_a_table_that_was_only_maintained_is_merged_into_as_it_is",
    ),
    "8.9": (
        "A table whose published version Delta can no longer restore is folded again from silver.",
        "test_a_table_whose_published_version_is_gone_is_folded_whole"
        " test_a_version_that_delta_can_no_longer_restore_closes_the_way_back",
    ),
    "8.10": (
        "A DDL in place that a death has cut short is done again, whole.",
        "test_a_run_that_dies_in_the_middle_of_a_change_is_done_again",
    ),
    "8.11": (
        "A table is altered first, then filled, then merged into; a fill does not touch what came behind its"
        " DDL.",
        "test_a_changed_table_is_what_a_fold_of_its_log_gives"
        " test_a_table_that_is_changed_twice_is_the_source",
    ),
    "8.12": (
        "A checkpoint that is lost, or lost a part, makes Delta skip no new write in silence.",
        "test_a_checkpoint_that_lost_a_part_is_begun_again_where_bronze_ends"
        " test_s5_a_batch_that_delta_skips",
    ),
    "8.13": (
        "The manifest is written last, with the version of each table and its state.",
        "test_a_run_that_dies_before_its_manifest_is_done_again"
        " test_a_run_that_dies_right_before_its_manifest_or_its_done_record_comes_to_the_same_lake",
    ),
    "8.14": (
        "All exact tables of a manifest are one state of the source.",
        "test_the_sum_over_three_tables_is_the_same_at_every_manifest"
        " test_a_lake_of_random_programs_is_the_database_at_every_manifest",
    ),
    "8.15": (
        "A table that is held stands where it was and is not exact.",
        "test_a_held_table_is_behind_whatever_else_is_missing"
        " test_a_held_table_waits_and_goes_on_where_an_operator_says_while_the_others_are_exact"
        " test_a_table_that_cannot_be_written_is_behind_with_its_error_and_the_others_go_on",
    ),
    "8.16": (
        "A dead letter makes its table not exact, one of no known table every table of the source.",
        "test_dead_letters_of_a_table_leave_the_others_exact_and_those_of_no_known_table_none"
        " test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is"
        " test_garbage_becomes_dead_letters_and_the_tables_go_on_without_claiming_to_be_exact",
    ),
    "8.17": (
        "A dead letter counts until it is decoded again or dismissed.",
        "test_the_commands_of_an_operator_end_to_end"
        " test_a_dead_letter_stays_open_until_it_is_dismissed"
        " test_what_could_not_be_read_is_read_again",
    ),
    "8.18": (
        "Maintenance keeps the versions of the manifests that are to stay readable.",
        "test_maintenance_keeps_every_manifest_that_is_to_be_kept_and_every_replay"
        " test_maintain_forgets_what_is_older_than_the_manifests_that_stay_readable",
    ),
    "8.19": (
        "A moment without a manifest is folded from silver.",
        "test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark"
        " test_a_feed_that_grows_gives_in_every_mode_what_the_engine_tells",
    ),
    "8.20": (
        "Other decoder options than those that silver was decoded with are refused, with the way out, by "
        "runs of silver and of gold, also behind one that died.",
        "test_another_zone_is_refused_until_silver_is_decoded_again"
        " test_a_run_of_gold_alone_under_another_zone_is_refused_also_behind_one_that_died"
        " test_a_batch_that_is_half_written_is_not_gone_on_with_under_another_zone"
        " test_another_zone_reads_the_same_text_as_another_value"
        " test_what_messages_show_by_themselves_counts_through_the_order",
    ),
    "8.21": (
        "Options that make no other events may change.",
        "test_options_that_decide_only_whether_a_message_is_decoded_may_change"
        " test_an_option_that_only_one_version_knows_has_not_changed",
    ),
    "8.22": (
        "Another YAML, or another server's rules, fold a table again.",
        "test_another_mode_or_layout_is_built_anew_and_goes_on"
        " test_another_server_folds_a_table_again_and_none_that_is_said_is_as_it_was"
        " test_gold_follows_the_server_that_is_said_and_folds_again_where_it_becomes_another",
    ),
    "8.23": (
        "A number of the ops log exists once: a writer that finds it taken by another run of its layer "
        "stops.",
        "test_of_two_runs_that_plan_the_same_batch_the_second_stops"
        " test_writers_of_one_moment_get_numbers_of_their_own"
        " test_layers_and_operators_that_write_at_one_time_get_numbers_of_their_own",
    ),
    "8.24": (
        "A batch of silver has one plan, and its appends are transactions of the plan's own: Delta skips "
        "what the same plan has written, or one that a newer plan has overtaken, and nothing else. Of two "
        "plans of a batch that are written all the same, nothing is lost, and what is there twice is told.",
        "test_of_two_runs_that_plan_the_same_batch_the_second_stops"
        " test_of_two_plans_for_one_batch_both_append_and_each_once"
        " test_the_number_of_a_plan_exceeds_that_of_the_last_one_whatever_the_clock_says"
        " test_what_an_older_lakehouse_left_half_written_is_not_appended_twice"
        " test_however_many_batches_there_are_a_table_has_one_id_and_versions_that_grow"
        " test_a_batch_that_is_planned_again_from_an_older_copy_of_the_log_loses_nothing"
        " test_s1_two_runs_that_write_the_same_batch",
    ),
    "8.25": (
        "What a run that was overtaken has waiting is never written.",
        "test_what_waits_behind_a_run_that_was_quicker_is_never_appended",
    ),
    "8.26": (
        "A log that was restored to an older version takes no record.",
        "test_a_log_that_was_restored_to_an_older_version_takes_no_record",
    ),
    "8.27": (
        "A lease keeps a second run apart while the first lives, and is taken over when it died.",
        "test_a_lease_is_refused_while_its_holder_lives_taken_over_when_it_died_and_free_when_it_ended"
        " test_a_second_run_is_told_who_holds_the_lock",
    ),
    "8.28": (
        "A run whose lease was taken over writes no more.",
        "test_a_holder_whose_lease_was_taken_over_writes_no_more",
    ),
    # Modes
    "9.1": (
        "TiCDC: in every mode the changes of one row at one commit are one.",
        "test_a_delete_and_an_insert_of_one_commit_are_one_update"
        " test_window_by_window_gives_what_all_changes_at_once_give",
    ),
    "9.2": (
        "Insert or update is judged by whether the row existed.",
        "test_a_delete_and_an_insert_of_one_commit_are_one_update test_the_change_log_folded_is_the_table",
    ),
    "9.3": (
        "A replay that is cut differently (split updates, `output-raw-change-event`) gives the same.",
        "test_by_commit_ts"
        " test_no_arrival_and_no_replay_changes_any_version"
        " test_the_current_versions_are_the_table_at_every_commit"
        " test_windows_that_cut_a_commit_in_two_and_late_rows_give_the_same",
    ),
    "9.4": (
        "`append` has one row for each netted change.",
        "test_a_change_that_changes_nothing_is_in_the_log_and_makes_no_version"
        " test_a_truncate_ends_every_version_and_logs_every_row_that_went"
        " test_the_change_log_folded_is_the_table",
    ),
    "9.5": (
        "`history`: the versions that hold at a moment are the table of that moment.",
        "test_the_versions_that_hold_at_a_moment_are_the_table_of_that_moment"
        " test_a_version_ends_where_the_next_begins_and_a_delete_leaves_a_gap",
    ),
    "9.6": (
        "Of binlog versions of equal time the last stands. Not kept: that the others are counted "
        "([modes](modes.md#history)).",
        "test_changes_of_one_second_leave_the_last_of_them",
    ),
    "9.7": (
        "No interval of `history` is empty, and none overlap.",
        "test_intervals_are_never_empty_never_overlap_and_never_meet_alike"
        " test_a_clock_that_runs_backwards_never_moves_a_bound_back",
    ),
    "9.8": (
        "Closed versions keep the values of their time: a column that came later is NULL in them.",
        "test_a_new_column_is_null_in_versions_before_it_and_its_default_makes_a_version",
    ),
    "9.9": (
        "A value that a lossy change of type cuts stays as its text beside the column.",
        "test_a_retype_that_loses_nothing_makes_no_version_and_one_that_does_leaves_the_old_text"
        " test_a_text_that_is_cut_short_stays_whole_in_the_past",
    ),
    "9.10": (
        "`upsert` has the live rows; with `deletes: soft` each row that ever was, and which of them are "
        "deleted.",
        "test_a_soft_deleted_row_keeps_its_values_and_comes_back_whole"
        " test_every_row_that_ever_was_is_there_once_and_the_live_ones_are_the_table"
        " test_every_mode_agrees_with_the_table_at_every_state",
    ),
    # Snapshots
    "10.1": (
        "A complete full snapshot of Debezium empties its tables at its position, below its own rows and the"
        " stream.",
        "test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it"
        " test_positions_rank_between_what_the_snapshot_has_and_what_it_has_not",
    ),
    "10.2": (
        "A complete snapshot takes effect once its last row has arrived.",
        "test_an_aborted_snapshot_clears_nothing"
        " test_a_second_snapshot_clears_when_its_last_row_is_there_and_an_aborted_one_never"
        " test_a_snapshot_is_whole_with_its_last_row",
    ),
    "10.3": (
        "The last row of a snapshot completes every table that has a schema record, empty ones too.",
        "test_a_table_that_is_empty_in_the_snapshot_is_cleared_and_one_without_a_record_is_retired",
    ),
    "10.4": (
        "A snapshot that was broken off is void once another begins.",
        "test_an_aborted_snapshot_is_void_once_another_has_begun_and_its_complete_one_stands"
        " test_an_aborted_snapshot_of_several_threads_is_void_too",
    ),
    "10.5": (
        "Rows of an incremental snapshot stand below every streamed change of their position, and clear "
        "nothing.",
        "test_rows_of_an_incremental_snapshot_rank_below_the_stream_and_clear_nothing",
    ),
    "10.6": (
        "A snapshot that a signal asked for clears nothing, and leaves other tables alone.",
        "test_a_snapshot_that_a_signal_asked_for_clears_nothing_and_leaves_other_tables_alone",
    ),
    "10.7": (
        "Schema records of a snapshot drop nothing by themselves.",
        "test_what_a_snapshot_drops_first_is_there_until_it_is_complete"
        " test_an_aborted_snapshot_clears_nothing"
        " test_t74_a_schema_record_that_changes_nothing_is_no_step",
    ),
    "10.8": (
        "A table of the snapshot's databases that has no schema record in a complete one is retired there.",
        "test_a_table_that_is_empty_in_the_snapshot_is_cleared_and_one_without_a_record_is_retired"
        " test_a_full_snapshot_drops_databases_and_is_known_by_it",
    ),
    # Retention and generations
    "11.1": (
        "At a floor silver's changes of a table become one snapshot row per live row: from there on every "
        "table is the same.",
        "test_from_the_floor_on_every_table_is_the_same_also_where_floors_rise"
        " test_a_floor_keeps_every_table_and_refuses_what_comes_below_it"
        " test_a_large_table_without_a_key_has_the_same_rows_at_a_floor",
    ),
    "11.2": (
        "Tables that show more than their live rows keep their log at a floor.",
        "test_a_table_that_shows_more_than_its_live_rows_keeps_its_log",
    ),
    "11.3": (
        "Tables keep their log at a floor whose fold still needs it, or whose state is not known yet.",
        "test_tables_that_need_their_log_say_why"
        " test_a_table_that_gold_has_not_folded_up_to_the_floor_keeps_its_log"
        " test_a_table_keeps_its_log_where_another_one_of_its_name_does"
        " test_a_table_that_comes_back_above_the_floor_keeps_its_log",
    ),
    "11.4": (
        "Rows that arrive at or below the floor later are refused and counted.",
        "test_a_floor_keeps_every_table_and_refuses_what_comes_below_it",
    ),
    "11.5": (
        "Statements that arrive at or below the floor later are refused, and their tables are incomplete.",
        "test_a_statement_of_a_later_batch_and_a_lower_place_is_refused"
        " test_the_table_of_that_place_is_incomplete_since_the_first_of_them"
        " test_statements_that_arrive_below_a_floor_are_refused_and_told",
    ),
    "11.6": (
        "What a table was known to lack is not forgotten with its log.",
        "test_what_changes_below_a_floor_lacked_is_not_forgotten_when_the_table_is_folded_again",
    ),
    "11.7": (
        "A moment below the floor is refused.",
        "test_a_floor_keeps_every_table_and_refuses_what_comes_below_it",
    ),
    "11.8": (
        "`rebuild silver` writes a new generation beside the old one and switches.",
        "test_silver_is_built_again_after_a_setting_was_mended_with_imported_schemas_and_epochs_kept"
        " test_silver_is_built_again_and_the_new_generation_is_audited"
        " test_a_log_reads_what_others_have_appended_since_and_takes_up_a_new_generation",
    ),
    "11.9": (
        "`rebuild silver` is refused where bronze has lost its beginning.",
        "test_silver_is_not_built_again_from_a_bronze_that_lost_its_beginning",
    ),
    "11.10": (
        "What operators have given up of one generation closes nothing of the next.",
        "test_what_was_given_up_of_batches_of_one_generation_closes_none_of_the_next"
        " test_a_new_generation_counts_its_own_batches",
    ),
    # Reconciliation
    "12.1": (
        "Of a batch, decoded changes = inserted + duplicate + conflict + below the floor; what is left over "
        "is an error that `status` shows.",
        "test_a_batch_whose_changes_are_not_all_accounted_for_is_open_by_their_number"
        " test_status_and_plan_say_how_far_a_lake_is_and_change_nothing"
        " test_a_book_that_does_not_close_is_a_number",
    ),
    "12.2": (
        "Of a topic's partition, what was read is in bronze once, or is counted as lost; holes that the "
        "broker explains are no loss.",
        "test_every_record_is_landed_once_or_counted_as_lost_and_holes_that_the_broker_still_has_are_not"
        " test_holes_of_transactions_are_no_loss_and_what_was_aborted_is_not_landed"
        " test_s5_a_batch_that_delta_skips",
    ),
    "12.3": (
        "What bronze holds is what silver's done batches cover.",
        "test_s7_messages_that_land_below_those_that_were_read"
        " test_every_record_is_read_whatever_lands_when_and_whenever_silver_looks"
        " test_what_a_layer_lost_or_has_twice_is_found_with_its_place",
    ),
    "12.4": (
        "Bronze has what its commits have appended, by Delta's own counts.",
        "test_bronze_is_to_have_what_its_commits_have_appended"
        " test_s8_records_that_bronze_had_and_has_no_more"
        " test_s8_bronze_that_was_put_back_from_a_copy",
    ),
    "12.5": (
        "Silver has what its batches have written.",
        "test_changes_that_silver_has_lost_make_every_table_incomplete_until_they_are_back"
        " test_s1_two_runs_that_write_the_same_batch",
    ),
    "12.6": (
        "A commit of gold wrote as many rows as it was given.",
        "test_fewer_rows_than_were_handed_to_delta_are_a_loss",
    ),
    "12.7": (
        "A table is made of as many changes as silver has of its life up to the watermark.",
        "test_g1_tables_that_are_folded_from_each_others_rows"
        " test_g1_a_large_window_that_is_dealt_out_wrongly"
        " test_a_table_is_counted_under_all_of_its_names"
        " test_rows_of_a_dropped_table_under_the_same_name_are_no_loss",
    ),
    "12.8": (
        "What the producer numbers has no gap: records of a feed, files of a storage sink.",
        "test_s3_records_that_a_feed_skips"
        " test_s4_a_numbered_file_that_the_sink_lacks"
        " test_s2_a_file_that_is_landed_empty",
    ),
    "12.9": (
        "What does not add up is told with its place, and its table or source is incomplete, before a "
        "manifest says exact.",
        "test_what_the_source_has_lost_leaves_no_table_exact"
        " test_a_file_that_the_sink_lacks_is_one_tables_or_every_ones"
        " test_s8_records_that_bronze_had_and_has_no_more"
        " test_a_table_is_incomplete_while_the_sink_lacks_one_of_its_files"
        " test_what_bronze_has_lost_is_told_until_it_is_restored_or_given_up",
    ),
    "12.10": (
        "A lake that is whole has no findings.",
        "test_a_lake_that_is_whole_has_no_findings test_a_silver_that_was_decoded_again_has_none_either",
    ),
    "12.11": (
        "An old image is the row that the fold has at that place; a difference is told.",
        "test_a_break_has_both_places_and_a_hash_of_the_key"
        " test_what_a_run_did_not_hold_against_gold_is_told_by_the_audit"
        " test_an_update_that_is_lost_is_found_by_the_next_old_image"
        " test_a_lost_update_makes_its_table_incomplete_until_it_comes",
    ),
    "12.12": (
        "An insert meets no live row; one that does is told.",
        "test_a_delete_that_is_lost_is_found_by_the_next_insert"
        " test_a_truncate_that_is_skipped_is_found_by_the_next_insert",
    ),
    "12.13": (
        "A delete or update meets a live row; one that does not is told.",
        "test_an_insert_that_is_lost_is_found_by_the_next_change_of_its_row"
        " test_the_first_change_of_a_run_is_held_against_the_row_that_gold_has",
    ),
    "12.14": (
        "Replays, snapshots, partial images and changes of one commit are no differences.",
        "test_a_feed_that_loses_nothing_has_no_break_whatever_is_sent_again"
        " test_changes_of_one_commit_are_not_held_against_each_other"
        " test_a_row_of_a_snapshot_is_there_but_its_cells_are_not_compared"
        " test_an_update_without_its_old_image_says_nothing_of_the_row_before",
    ),
}
