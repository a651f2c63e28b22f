"""Messages on their way to silver, and how far a source has come: what is to be right, and the tests that
fail where it is not.
"""

# number: (what is to be right, tests)
RULES: dict[str, tuple[str, str]] = {
    # Messages made whole before they are decoded
    "2.1": (
        "Parts of a DTS message are joined by their offsets, however batches cut them.",
        "test_batches_cut_anywhere_give_what_one_batch_gives"
        " test_however_entries_are_cut_mixed_and_repeated_they_come_back_whole",
    ),
    "2.2": (
        "The last parts of a message that is not whole wait for the next batch; they are dead letters only "
        "where nothing can come.",
        "test_the_last_parts_of_a_batch_wait"
        " test_parts_that_wait_are_dead_letters_only_where_nothing_can_come",
    ),
    "2.3": (
        "A data file of a storage sink is decoded with its schema file, and waits for it.",
        "test_a_data_file_has_its_schema_file_and_how_many_wrote_beside_it"
        " test_data_files_that_came_before_their_schema_file_count_once_it_is_there",
    ),
    "2.4": (
        "A claim-check message is decoded with its payload.",
        "test_a_claim_check_event_gets_the_payload_s_key_and_value_and_its_neighbours_stay"
        " test_a_claim_check_message_of_canal_json_becomes_the_payload_s_value_wrapped_or_raw"
        " test_a_payload_comes_as_a_header_and_leaves_no_trace",
    ),
    "2.5": (
        "A payload is landed in bronze when its message is first seen, since payloads expire. No test shows "
        "it.",
        "",
    ),
    "2.6": (
        "Compression is undone before decoding; bytes that are not compressed as configured are one dead "
        "letter.",
        "test_what_was_compressed_comes_back"
        " test_debezium_compresses_key_and_value_and_canal_json_the_value"
        " test_bytes_that_are_not_compressed_as_said_are_one_dead_letter",
    ),
    "2.7": (
        "An insert or update of which only the handle key is there is a dead letter `unresolved`, never a "
        "change.",
        "test_a_row_sent_as_its_key_alone_is_unresolved_unless_it_is_deleted"
        " test_an_update_that_names_no_row_is_unresolved",
    ),
    "2.8": (
        "A row of which the handle key alone had come is no duplicate when it comes whole.",
        "test_a_row_that_is_sent_whole_later_is_no_duplicate_of_its_key_alone",
    ),
    "2.9": (
        "A delete needs no more than its key.",
        "test_t35_a_delete_that_carries_the_key_alone_removes_the_row"
        " test_a_delete_of_which_only_the_key_was_sent_says_so",
    ),
    # Duplicates in silver
    "3.1": (
        "Duplicates are found however long ago the change came first.",
        "test_a_change_that_comes_again_is_a_duplicate_in_one_batch_and_of_silver"
        " test_replays_repeats_and_b_a_b_change_nothing"
        " test_of_a_hot_key_and_of_rows_without_one_only_the_same_changes_come"
        " test_t12_t13_an_older_change_behind_a_delete_brings_no_row_back",
    ),
    "3.2": (
        "A batch that lies above all that silver has is compared with nothing.",
        "test_a_batch_above_all_that_silver_has_looks_for_no_duplicates_and_any_other_where_it_overlaps"
        " test_a_feed_in_order_of_arrival_that_goes_on_has_nothing_that_silver_has",
    ),
    "3.3": (
        "A batch that overlaps silver is compared with the stretches of positions that it overlaps alone.",
        "test_one_old_row_among_new_ones_does_not_bring_all_between"
        " test_what_lies_between_any_bounds_is_in_a_span",
    ),
    "3.4": (
        "Deduplication is the same on the driver and in Spark jobs.",
        "test_a_batch_in_spark_jobs_is_the_batch_on_the_driver"
        " test_silver_in_spark_jobs_equals_silver_on_the_driver",
    ),
    "3.5": (
        "Bronze lands every file that is whole, at once.",
        "test_an_empty_and_a_half_written_file_wait_and_hold_nothing_else"
        " test_a_folder_that_grows_gives_the_sources_tables_after_each_pass",
    ),
    "3.6": (
        "A file is known by path, size and time: one that is written again after a crash lands again.",
        "test_a_file_rewritten_after_a_crash_lands_again",
    ),
    "3.7": (
        "Only gold waits for the storage sink's checkpoint.",
        "test_a_folder_that_grows_gives_the_sources_tables_after_each_pass"
        " test_a_file_that_cannot_be_read_when_it_lands_is_landed_once_it_can",
    ),
    "3.8": (
        "The checkpoint is read before the folder is listed, so that all up to it has landed.",
        "test_the_checkpoint_is_read_before_anything_is_listed"
        " test_at_every_checkpoint_that_lands_all_rows_up_to_it_have_landed",
    ),
    "3.9": (
        "A batch writes changes, schema changes, watermarks and dead letters, and its `done` record last.",
        "test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake"
        " test_a_run_that_dies_right_before_its_manifest_or_its_done_record_comes_to_the_same_lake",
    ),
    "3.10": (
        "Every row of silver has its batch's number, and what no `done` record covers does not exist for "
        "gold.",
        "test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake"
        " test_changes_of_a_batch_that_is_done_while_gold_runs_are_not_counted_yet",
    ),
    # Watermarks
    "4.1": (
        "A watermark is a position with its epoch: any of a later epoch is above all of an earlier one.",
        "test_a_watermark_of_an_earlier_epoch_is_below_every_one_of_a_later",
    ),
    "4.2": (
        "A watermark never goes back.",
        "test_t14_a_watermark_never_goes_back"
        " test_a_smaller_watermark_after_a_death_before_the_manifest_takes_back_what_was_merged",
    ),
    "4.3": (
        "TiCDC: a watermark is above all that was committed at its commit ts, DDL included.",
        "test_a_watermark_is_the_resolved_time_above_all_that_it_covers",
    ),
    "4.4": (
        "Storage sinks: the watermark is the checkpoint.",
        "test_the_watermark_is_the_checkpoints"
        " test_at_every_checkpoint_that_lands_all_rows_up_to_it_have_landed",
    ),
    "4.5": (
        "DTS: the watermark is the checkpoint in the stream.",
        "test_a_checkpoint_covers_what_came_before_it_and_nothing_after",
    ),
    "4.6": (
        "Feeds in order of arrival have no watermark.",
        "test_consistency_is_resolved_exactly_where_watermarks_come"
        " test_a_feed_that_sends_no_watermarks_waits_for_none",
    ),
    "4.7": (
        "Debezium: the watermark is the last row of the last transaction before the first that lacks its END"
        " or one of the rows that END counts, whichever topic was read further.",
        "test_whatever_order_topics_arrive_in_the_watermark_stands_right_below_the_first_gap"
        " test_every_transaction_end_counts_the_rows_that_name_it",
    ),
    "4.8": (
        "Debezium: a row that could not be decoded counts as a row of its transaction.",
        "test_a_dead_row_holds_no_transaction"
        " test_what_can_t_be_read_stands_for_a_row_of_an_end_that_has_waited"
        " test_whatever_can_t_be_read_nothing_waits_for_ever",
    ),
    "4.9": (
        "Debezium: a snapshot raises the watermark once its last row is there, and all is read that its pass"
        " has landed: a batch takes a part of each topic.",
        "test_a_snapshot_is_whole_with_its_last_row"
        " test_snapshots_and_ddls_count_with_a_batch_that_leaves_nothing_unread"
        " test_a_snapshot_of_which_a_batch_takes_a_part_is_not_whole_with_its_last_row"
        " test_a_snapshot_waits_for_the_end_of_the_pass_that_lands_it"
        " test_what_waits_for_the_end_of_a_pass_needs_no_new_record"
        " test_a_transaction_above_a_snapshot_of_which_rows_are_unread_does_not_count_yet",
    ),
    "4.10": (
        "Debezium: a DDL raises the watermark once every transaction before is whole.",
        "test_a_ddl_counts_from_the_next_batch_on_and_only_while_nothing_is_open"
        " test_snapshots_and_ddls_count_with_a_batch_that_leaves_nothing_unread",
    ),
    "4.11": (
        "The watermark of a source is the smallest over the partitions that count.",
        "test_t15_t17_the_slowest_partition_holds_the_watermark_and_no_row_below_it_is_dropped"
        " test_topics_at_their_end_hold_nothing_and_alone_they_are_complete",
    ),
    "4.12": (
        "A partition that is listed and has sent no watermark holds the source, and `status` names it.",
        "test_topics_at_their_end_hold_nothing_and_alone_they_are_complete"
        " test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is",
    ),
    "4.13": (
        "Partitions are listed after the end offsets of a pass are fixed: one that is new holds the source "
        "at once. Until they are, watermarks of what the pass has landed do not count, though another process"
        " reads them, or the pass has died.",
        "test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is"
        " test_watermarks_of_records_that_landed_since_partitions_were_listed_do_not_count"
        " test_no_watermark_passes_a_partition_that_is_made_while_a_pass_runs"
        " test_silver_that_was_built_again_beside_a_pass_goes_no_further_than_what_is_published",
    ),
    "4.14": (
        "A DDL that removes a topic's last table stands for a watermark in all partitions of the topic.",
        "test_a_topic_ends_with_its_last_table"
        " test_a_topic_without_tables_holds_nothing_until_there_is_one_again",
    ),
    "4.15": (
        "Such a DDL counts from the batch after the one that landed it.",
        "test_a_topics_end_counts_once_two_batches_have_taken_all_that_bronze_had",
    ),
    "4.16": (
        "A topic without tables does not count until it has one again or a watermark comes.",
        "test_a_topic_goes_on_when_its_table_is_there_again_or_a_watermark_comes"
        " test_the_watermark_never_passes_a_topic_that_has_a_table"
        " test_a_topic_with_a_table_that_no_statement_tells_of_does_not_end",
    ),
    "4.17": (
        "`partitions retire` makes a partition not count.",
        "test_the_commands_of_an_operator_end_to_end"
        " test_a_partition_that_was_retired_counts_again_as_soon_as_something_arrives_in_it",
    ),
    "4.18": (
        "`kafka.partitions: N` makes the first N of each topic count.",
        "test_a_watermark_waits_for_as_many_partitions_as_the_configuration_says",
    ),
    "4.19": (
        "The default topic must be among those that are read.",
        "test_a_kafka_input_says_what_is_wrong_in_one_sentence",
    ),
    "4.20": (
        "A partition counts from when it was first listed or met.",
        "test_partitions_count_that_are_listed_or_were_met test_partitions_of_a_topic_that_is_away_count_on",
    ),
    "4.21": (
        "Partitions that a newer incarnation of the topic lacks do not count.",
        "test_partitions_that_a_topic_created_anew_no_longer_has_do_not_count"
        " test_a_retired_partition_counts_again_when_written_to_and_one_that_a_new_topic_lacks_does_not",
    ),
    "4.22": (
        "Something that arrives in a partition that does not count makes it count again, which is told.",
        "test_nothing_that_holds_unread_or_newly_read_records_is_left_out"
        " test_a_retired_partition_counts_again_when_written_to_and_one_that_a_new_topic_lacks_does_not",
    ),
    "4.23": (
        "A broker that begins to tell topic ids begins no incarnation.",
        "test_a_broker_that_begins_or_ceases_to_tell_ids_names_the_topic_that_is_there",
    ),
    "4.24": (
        "A new change at or below a published watermark disproves it: its table is incomplete until a later "
        "watermark.",
        "test_a_new_change_below_the_published_watermark_makes_its_table_incomplete_until_a_later_one"
        " test_a_table_is_told_of_until_a_later_watermark"
        " test_no_table_is_told_of_twice_and_none_is_forgotten_before_its_time",
    ),
    "4.25": (
        "A change that disproves a watermark is counted, and told with its place: a topic has one "
        "changefeed.",
        "test_it_is_told_with_its_place test_what_is_found_again_is_counted_together",
    ),
    "4.26": (
        "Changes that come again, and those of a partition that had promised nothing, disprove nothing.",
        "test_a_new_change_below_the_published_watermark_makes_its_table_incomplete_until_a_later_one"
        " test_a_partition_has_promised_its_own_watermark_and_no_more_than_was_published",
    ),
    "4.27": (
        "`consistency: resolved` shows exactly what is at or below the watermark.",
        "test_the_tables_at_each_watermark_on_the_way_are_already_right"
        " test_the_documented_example_is_right_under_both_consistencies"
        " test_t25_t26_t27_a_place_between_two_commits_shows_all_of_the_first_and_nothing_of_the_second",
    ),
    "4.28": (
        "`resolved` is the default where the format has watermarks.",
        "test_consistency_is_resolved_exactly_where_watermarks_come",
    ),
    "4.29": (
        "`consistency: eventual` shows all that has arrived.",
        "test_the_documented_example_is_right_under_both_consistencies"
        " test_a_lake_of_random_programs_is_the_database_at_every_manifest",
    ),
    "4.30": (
        "A feed that sends no watermark where `resolved` waits for one says so, in `status` and before "
        "anything is run.",
        "test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is"
        " test_ticdc_is_told_the_settings_of_its_changefeed"
        " test_a_source_says_what_is_wrong_in_one_sentence",
    ),
}
