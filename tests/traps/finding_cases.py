"""Mistakes of this project that were found by reading and running it: what is to be right, and the tests that
fail where it is not. They are the second part of docs/semantics-coverage.md (tests/traps/trap_cases.py).
"""

# number: (what is to be right, tests)
FINDINGS: dict[str, tuple[str, str]] = {
    "G1": (
        "Small tables that are read together have their own rows, however many they are.",
        "test_sixty_small_tables_have_all_their_rows"
        " test_g1_tables_that_are_folded_from_each_others_rows"
        " test_g1_a_large_window_that_is_dealt_out_wrongly",
    ),
    "G2": (
        "A value that no rule converts is NULL, and its table incomplete since the statement.",
        "test_a_value_without_a_rule_is_null_and_the_table_says_which_column_and_since_when"
        " test_a_value_that_no_rule_converts_makes_its_table_incomplete_since_the_statement",
    ),
    "G3": (
        "Values are converted by the rules of the server that the source names, on every path.",
        "test_gold_follows_the_server_that_is_said_and_folds_again_where_it_becomes_another"
        " test_text_becomes_a_number_by_the_rules_of_the_server_that_is_said",
    ),
    "G4": (
        "Rows of a run that died before its manifest are in no table of a smaller watermark.",
        "test_a_smaller_watermark_after_a_death_before_the_manifest_takes_back_what_was_merged"
        " test_a_death_between_the_write_and_the_manifest_hides_no_version_of_a_row",
    ),
    "G5": (
        "What changes are known to lack is the same in every size and mode.",
        "test_every_way_gives_the_same_state test_every_way_completes_rows_alike_and_says_the_same"
        " test_what_a_change_does_not_tell_leaves_its_table_incomplete_for_good",
    ),
    "G6": (
        "One table has one reading of its bytes: other options of the decoder are refused.",
        "test_another_zone_is_refused_until_silver_is_decoded_again"
        " test_a_run_of_gold_alone_under_another_zone_is_refused_also_behind_one_that_died",
    ),
    "G7": (
        "A partial update of a keyless row keeps the cells of the row that it replaces.",
        "test_a_partial_update_keeps_the_cells_of_the_row_that_it_replaces",
    ),
    "G8": (
        "Absent is not NULL: in a partition's rule, and in a cell that no message has.",
        "test_a_row_whose_partition_no_message_tells_stays_and_says_so"
        " test_a_column_that_no_message_carries_is_not_null_in_silence",
    ),
    "G9": (
        "A statement that arrives below a retention floor is refused.",
        "test_statements_that_arrive_below_a_floor_are_refused_and_told",
    ),
    "G10": (
        "A table keeps its Delta table when its beginning becomes known, and through DROP and CREATE.",
        "test_a_create_that_comes_late_and_an_imported_schema_leave_a_table_its_delta_table_and_its_id"
        " test_a_table_that_is_dropped_and_created_again_goes_on_in_its_delta_table",
    ),
    "G11": (
        "Tables without a key have the same rows in every size.",
        "test_every_way_gives_the_same_rows test_a_large_table_without_a_key_has_the_same_rows_at_a_floor",
    ),
    "G12": (
        "ZEROFILL, implied TIMESTAMPs, names and labels are the servers'.",
        "test_an_integers_width_stays_where_it_is_filled_with_zeros"
        " test_every_value_becomes_what_mariadb_made_of_it"
        " test_a_new_timestamp_holds_what_the_servers_version_says"
        " test_names_are_compared_as_servers_compare_them"
        " test_the_error_value_of_an_enum_is_told_from_its_member_of_no_characters"
        " test_labels_have_no_blanks_at_their_end",
    ),
    "G13": (
        "A table that cannot be written is behind with its error, and the others go on.",
        "test_a_table_that_cannot_be_written_is_behind_with_its_error_and_the_others_go_on"
        " test_long_names_and_a_column_named_as_one_of_ours_are_tables_like_others",
    ),
    "G14": (
        "A change that comes late in a large table brings its row's changes to the driver, and no others.",
        "test_what_comes_late_brings_the_changes_of_its_row_alone_to_the_driver"
        " test_the_changes_of_some_keys_give_their_rows",
    ),
    "S1": (
        "A lease lives while its holder works; of two runs that plan the same batch one stops, and no append"
        " is taken for another plan's.",
        "test_a_job_that_holds_all_task_slots_stops_no_heartbeat"
        " test_a_holder_whose_lease_was_taken_over_writes_no_more"
        " test_of_two_runs_that_plan_the_same_batch_the_second_stops"
        " test_writers_of_one_moment_get_numbers_of_their_own"
        " test_of_two_plans_for_one_batch_both_append_and_each_once"
        " test_a_batch_that_is_planned_again_from_an_older_copy_of_the_log_loses_nothing"
        " test_s1_two_runs_that_write_the_same_batch",
    ),
    "S2": (
        "A file that cannot be read when it lands is landed once it can.",
        "test_a_file_that_cannot_be_read_when_it_lands_is_landed_once_it_can"
        " test_s2_a_file_that_is_landed_empty",
    ),
    "S3": (
        "Records that DTS skips are a loss.",
        "test_records_that_a_feed_skips_are_a_dead_letter test_s3_records_that_a_feed_skips",
    ),
    "S4": (
        "A storage sink that lacks a numbered file lacks rows.",
        "test_a_table_is_incomplete_while_the_sink_lacks_one_of_its_files"
        " test_s4_a_numbered_file_that_the_sink_lacks",
    ),
    "S5": (
        "A checkpoint that lost a part skips nothing.",
        "test_a_checkpoint_that_lost_a_part_is_begun_again_where_bronze_ends"
        " test_s5_a_batch_that_delta_skips",
    ),
    "S6": (
        "A retired partition counts again when it is written to.",
        "test_a_retired_partition_counts_again_when_written_to_and_one_that_a_new_topic_lacks_does_not",
    ),
    "S7": (
        "Messages that land below those that were read are decoded.",
        "test_messages_that_land_below_those_that_were_read_are_decoded"
        " test_s7_messages_that_land_below_those_that_were_read",
    ),
    "S8": (
        "Rows that silver has lost make tables incomplete.",
        "test_changes_that_silver_has_lost_make_every_table_incomplete_until_they_are_back"
        " test_s8_records_that_bronze_had_and_has_no_more"
        " test_s8_bronze_that_was_put_back_from_a_copy",
    ),
    "S9": (
        "A new change below a published watermark disproves it.",
        "test_a_new_change_below_the_published_watermark_makes_its_table_incomplete_until_a_later_one",
    ),
    "S10": (
        "Any number of partitions is read by one condition of bounded depth.",
        "test_many_partitions_are_read_as_few_are"
        " test_what_is_unread_is_what_python_says_whatever_partitions_there_are",
    ),
    "S11": (
        "The ops log keeps what runs need; whoever asks for more has the same answers as ever.",
        "test_whatever_is_asked_of_a_pruned_log_has_the_answer_that_it_had"
        " test_a_pruned_log_is_short_and_tells_what_the_whole_one_tells"
        " test_a_prune_that_dies_before_its_end_is_done_by_the_next",
    ),
    "S12": (
        "An error that a decoder did not foresee is a dead letter.",
        "test_an_error_that_a_decoder_did_not_foresee_is_named_by_its_type_and_never_quoted",
    ),
    "S13": (
        "A topic whose last table is dropped, or that is created again with fewer partitions, holds nothing.",
        "test_a_topic_without_tables_holds_nothing_until_there_is_one_again"
        " test_a_topic_ends_with_its_last_table"
        " test_partitions_that_a_topic_created_anew_no_longer_has_do_not_count"
        " test_a_retired_partition_counts_again_when_written_to_and_one_that_a_new_topic_lacks_does_not",
    ),
    "S14": (
        "An open transaction is landed once; a broker that begins to tell ids begins no incarnation.",
        "test_an_open_transaction_that_is_read_uncommitted_is_landed_once"
        " test_a_broker_that_begins_or_ceases_to_tell_ids_names_the_topic_that_is_there",
    ),
    "S15": (
        "A source that fails is tried again and stops no other.",
        "test_a_source_that_fails_is_tried_again_and_stops_no_other",
    ),
    "S16": (
        "A compressed message is unpacked up to a bound, and many letters are decoded again by workers.",
        "test_a_message_that_would_fill_the_memory_is_refused"
        " test_thousands_of_letters_that_lie_apart_are_decoded_in_few_batches",
    ),
    "S17": (
        "A table with capitals is one table, though the sink writes its statements in lower case.",
        "test_a_table_with_capitals_is_one_table_though_its_statements_lie_in_lower_case",
    ),
    "S18": (
        "An update that may have changed its key leaves its table incomplete.",
        "test_an_update_that_may_have_changed_its_key_leaves_the_table_incomplete",
    ),
    "B1": (
        "The bundle that `lakehouse init --bundle DIR` writes has no fault, by the command that people use.",
        "test_no_bundle_has_a_fault_in_any_target test_the_cli_sees_it_too"
        " test_the_cli_deploys_what_init_writes_twice_runs_it_and_removes_it",
    ),
    "B2": (
        "The package that pages have people install is this one.",
        "test_the_distribution_has_a_name_of_its_own",
    ),
    "C1": (
        "A statement, a late change and a change without a key cost what they touch, not the whole table.",
        "test_a_changed_table_is_what_a_fold_of_its_log_gives"
        " test_windows_add_and_take_rows_of_their_own_image"
        " test_what_comes_late_brings_the_changes_of_its_row_alone_to_the_driver",
    ),
    "C2": (
        "Tables without a CREATE are looked through once, then by new batches alone, in one query for all.",
        "test_every_run_looks_at_new_batches_in_one_query_and_finds_what_all_rows_tell",
    ),
    "C3": (
        "An idle pass reads no record of bronze.",
        "test_an_idle_pass_looks_at_no_record_until_bronze_has_another_version"
        " test_files_of_partitions_that_are_read_are_not_opened",
    ),
    "C4": (
        "A batch is held against the same changes of silver alone; one of an arrival feed against none.",
        "test_of_a_hot_key_and_of_rows_without_one_only_the_same_changes_come"
        " test_a_feed_in_order_of_arrival_that_goes_on_has_nothing_that_silver_has",
    ),
    "C5": (
        "One old row in a batch does not make silver be read from there to the newest.",
        "test_one_old_row_among_new_ones_does_not_bring_all_between"
        " test_what_lies_between_any_bounds_is_in_a_span",
    ),
    "C6": (
        "A `done` record has the keyless rows of those transactions alone that no watermark has passed. One"
        " that comes in a batch of its own ends them: rows that are sent again behind it are known.",
        "test_rows_are_known_again_though_their_watermark_came_in_a_batch_of_its_own"
        " test_a_batch_without_rows_of_keyless_tables_ends_the_runs_that_its_resolved_events_end",
    ),
    "C7": (
        "Of the run that a feed may be sending again, the driver reads what is sent again, and no more.",
        "test_the_driver_looks_no_further_back_than_what_is_sent_again"
        " test_batch_by_batch_the_same_is_found_as_in_the_whole_run",
    ),
    "C8": (
        "Maintenance holds its source, and keeps all of its tables in shape.",
        "test_maintain_forgets_what_is_older_than_the_manifests_that_stay_readable",
    ),
    "C9": (
        "Of a storage sink's paths, a pass brings those to the driver that came since the one before it.",
        "test_a_later_pass_of_a_run_reads_of_bronze_what_was_appended_since",
    ),
    "C10": (
        "A batch's statements are held against those at their positions; the partitions that rows lie in are"
        " remembered, and new rows alone are grouped.",
        "test_batch_by_batch_the_same_is_found_as_in_all_rows"
        " test_older_rows_are_looked_at_for_new_keys_of_tables_in_several_partitions_alone",
    ),
    "C11": (
        "A merge rewrites the files of its keys alone, or marks rows in them.",
        "test_a_merge_marks_rows_or_rewrites_files_of_its_keys_alone",
    ),
    "4.1": (
        "What is left to read of a topic is of its present incarnation, and never below nought.",
        "test_what_is_unread_is_of_the_present_incarnation_and_never_negative",
    ),
    "4.2": (
        "A watermark's age is not that of a partition that is retired.",
        "test_the_age_of_a_watermark_is_not_that_of_a_partition_that_is_retired",
    ),
    "4.3": (
        "What a decision says of tests is so: a batch on the driver is held against one in Spark jobs.",
        "test_a_batch_in_spark_jobs_is_the_batch_on_the_driver",
    ),
    "4.4": (
        "The page on the architecture lists the packages that there are; what may import what is said by the"
        " contracts alone, which `./run check` holds.",
        "test_every_package_is_in_the_list_of_packages"
        " test_every_file_and_module_that_a_text_names_is_there"
        " test_every_function_that_the_table_of_questions_names_is_in_its_file",
    ),
    "4.5": (
        "Pages name commands, files and pages of the present code. Not kept by a test: that the figures of"
        " what was killed are the newest code's.",
        "test_every_module_that_a_page_runs_is_there_with_its_options"
        " test_every_link_leads_to_a_page_and_a_place_on_it",
    ),
    "5.1": (
        "What a manifest names is read after others have put files together and taken the old ones away.",
        "test_what_is_published_is_read_after_others_have_put_its_files_together_and_vacuumed"
        " test_a_version_with_the_same_rows_needs_no_way_back_and_the_newest_one_counts",
    ),
    "5.2": (
        "Rows of every mode whose keys gold can't hold are told apart.",
        "test_rows_whose_keys_gold_can_not_hold_are_told_apart"
        " test_rows_whose_keys_gold_cannot_hold_are_not_taken_for_each_other",
    ),
    "5.3": (
        "A table that is held below what a dead run has merged stands before the statement that holds it.",
        "test_a_table_that_is_held_below_what_a_dead_run_has_merged_stands_before_its_ddl",
    ),
    "5.4": (
        "A retention floor is that of the tables that had its name below it.",
        "test_a_floor_below_a_tables_beginning_is_that_of_an_earlier_one"
        " test_a_table_keeps_its_log_where_another_one_of_its_name_does",
    ),
    "5.5": (
        "A backslash in a statement that TiDB has printed is one. Not kept: a server under"
        " NO_BACKSLASH_ESCAPES behind a binlog, whose messages do not tell it.",
        "test_a_backslash_in_a_statement_of_ticdc_is_one"
        " test_elsewhere_it_escapes_as_in_the_statement_of_its_author",
    ),
    "5.6": (
        "Text has its database's character set where its table names none.",
        "test_a_column_that_is_added_has_the_database_s_charset_too"
        " test_a_database_has_not_its_server_s_charset_where_a_statement_says_another"
        " test_a_table_is_converted_to_the_database_s_charset_where_it_says_default",
    ),
    "5.7": (
        "CREATE … LIKE copies the source's columns, not what an ignored statement left in gold.",
        "test_a_table_that_is_made_like_another_has_the_source_s_columns_and_not_gold_s",
    ),
    "5.8": (
        "A log that ends below what was read is another one. Not kept: one that has grown past that again"
        " before anybody looked, under the same topic id or none.",
        "test_a_log_that_ends_below_what_was_read_begins_an_incarnation_of_our_own_count"
        " test_topics_of_a_broker_that_gives_no_ids_are_told_apart_by_count",
    ),
    "5.9": (
        "A batch that is half written is done under the options that it was begun with, or not at all.",
        "test_a_batch_that_is_half_written_is_not_gone_on_with_under_another_zone",
    ),
    "5.10": (
        "Bronze records a new partition before it lands a record of the pass.",
        "test_a_new_partition_is_recorded_before_a_record_of_the_pass_is_landed"
        " test_no_watermark_passes_a_partition_that_is_made_while_a_pass_runs",
    ),
    "5.11": (
        "What the driver decodes by itself is bounded by its bytes, keys included, and a batch in Spark jobs"
        " by `max_bytes` of values and a twentieth, wherever in a partition the large ones lie. Not kept: of"
        " records that landed late, or are decoded again, and where the first record of each partition and"
        " snapshot alone are more.",
        "test_records_whose_keys_are_most_of_their_bytes_are_no_small_batch"
        " test_no_batch_has_more_bytes_or_records_than_it_may",
    ),
    "5.12": (
        "A time beyond 2038 that becomes a TIMESTAMP of a MariaDB is not taken for zero: versions differ.",
        "test_a_timestamp_beyond_2038_depends_on_the_version_of_mariadb"
        " test_a_type_that_a_session_decides_is_unknowable_beside_the_change",
    ),
}
