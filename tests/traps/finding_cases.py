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
        "test_another_zone_is_refused_until_silver_is_decoded_again",
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
        "test_a_new_timestamp_holds_what_the_servers_version_says",
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
        "A lease lives while its holder works; of two runs that plan the same batch one stops.",
        "test_a_job_that_holds_all_task_slots_stops_no_heartbeat"
        " test_a_holder_whose_lease_was_taken_over_writes_no_more"
        " test_of_two_runs_that_plan_the_same_batch_the_second_stops"
        " test_writers_of_one_moment_get_numbers_of_their_own"
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
        "test_a_topic_without_tables_holds_nothing_until_there_is_one_again",
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
}
