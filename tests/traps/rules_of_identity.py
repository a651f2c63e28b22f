"""Order and identity of changes: what is to be right, and the tests that fail where it is not."""

# number: (what is to be right, tests)
RULES: dict[str, tuple[str, str]] = {
    # Order and identity of changes
    "1.1": (
        "A position is six integers, the epoch first, in every format, so that silver has one schema for all"
        " sources.",
        "test_the_epoch_of_the_message_stands_first_in_every_position",
    ),
    "1.2": (
        "Positions are compared number by number, never as text.",
        "test_t09_positions_are_numbers_and_not_text",
    ),
    "1.3": (
        "TiCDC with commit ts: changes are ordered by commit ts, then delete, insert or update, DDL.",
        "test_positions_are_commit_ts_and_rank"
        " test_with_the_extension_order_is_tidb_s"
        " test_t01_a_delete_and_an_insert_of_one_key_at_one_commit_leave_the_row_in_either_order"
        " test_by_commit_ts",
    ),
    "1.4": (
        "The file, partition or offset in which a change with a commit ts arrives counts neither for its "
        "order nor for its identity.",
        "test_t16_rows_of_a_key_spread_over_partitions_stand_by_their_commit_time"
        " test_t10_t11_t24_what_is_delivered_again_changes_nothing"
        " test_files"
        " test_where_a_message_came_from_is_part_of_the_identity_in_order_of_arrival_alone",
    ),
    "1.5": (
        "The identity of a change with a commit ts is database, table, key, epoch, commit ts and rank: a "
        "delete and an insert of one key at one commit are two changes.",
        "test_database_table_key_epoch_commit_time_rank_and_row_tell_changes_apart"
        " test_t01_a_delete_and_an_insert_of_one_key_at_one_commit_leave_the_row_in_either_order",
    ),
    "1.6": (
        "Binlog feeds (Debezium, Canal protobuf, DTS): changes are ordered by file number, offset, snapshot "
        "before stream, row, and the deleting half of a key change first.",
        "test_a_row_has_its_place_in_the_binlog"
        " test_a_position_of_protobuf_is_the_binlog_s_own"
        " test_rows_of_one_event_and_of_its_shards_have_their_own_positions"
        " test_both_records_of_a_key_change_have_their_own_half"
        " test_by_binlog_position",
    ),
    "1.7": (
        "A snapshot's row stands below a streamed change of the same place.",
        "test_a_row_has_its_place_in_the_binlog"
        " test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it",
    ),
    "1.8": (
        "Feeds in order of arrival: changes are ordered by Kafka offset, row and half.",
        "test_positions_of_a_flat_message_are_its_offset_and_the_row_in_it"
        " test_without_the_extension_order_is_arrival_and_the_commit_time_is_rounded_to_milliseconds"
        " test_by_arrival",
    ),
    "1.9": (
        "In order of arrival, topic, incarnation and partition are part of a change's identity.",
        "test_where_a_message_came_from_is_part_of_the_identity_in_order_of_arrival_alone",
    ),
    "1.10": (
        "Files of a storage sink without commit ts are ordered by table version, date, file number and row, "
        "and their checkpoint is no watermark.",
        "test_without_commit_ts_files_and_rows_are_the_order",
    ),
    "1.11": (
        "Files without commit ts that several dispatchers wrote into one folder are refused.",
        "test_several_dispatchers_without_commit_ts_are_refused",
    ),
    "1.12": (
        "A commit time is no part of a binlog position: time runs backwards inside a binlog.",
        "test_t07_changes_of_one_second_stand_in_their_position test_t21_the_connectors_clock_orders_nothing",
    ),
    "1.13": (
        "The validity of a row's version (SCD2) begins at the running maximum of its commit times in "
        "position order.",
        "test_a_clock_that_runs_backwards_never_moves_a_bound_back",
    ),
    "1.14": (
        "DTS is ordered by binlog file and position: its sequence numbers tell gaps and cut parts alone, for"
        " a restarted task counts anew.",
        "test_by_binlog_position"
        " test_a_restarted_task_sends_the_parts_again_from_the_first"
        " test_a_lower_sequence_number_with_other_bytes_is_no_duplicate"
        " test_a_jump_of_the_sequence_is_a_gap_and_never_joins_parts",
    ),
    "1.15": (
        "An update that changes the key is two changes: the delete of the old key, then the insert of the "
        "new one.",
        "test_an_update_of_the_key_is_a_delete_and_then_an_insert"
        " test_t05_a_chain_of_key_changes_keeps_every_row_in_either_order",
    ),
    "1.16": (
        "The decoder splits a key change that the producer has not split.",
        "test_an_update_that_the_connector_did_not_split_is_split_here"
        " test_an_update_whose_key_changes_is_a_delete_and_an_insert",
    ),
    "1.17": (
        "Where a message may have changed the key and does not tell the old one, the change says so, and its"
        " table is incomplete.",
        "test_an_update_that_may_have_changed_the_key_says_so_unless_rows_are_stored_by_it"
        " test_an_update_that_may_have_changed_its_key_leaves_the_table_incomplete",
    ),
    "1.18": (
        "TiCDC: changes of one key at one commit are netted before they are used.",
        "test_t01_a_delete_and_an_insert_of_one_key_at_one_commit_leave_the_row_in_either_order"
        " test_a_delete_and_an_insert_of_one_commit_are_one_update",
    ),
    "1.19": (
        "Rows of one binlog event keep their order.",
        "test_t08_rows_of_one_event_stand_in_their_order"
        " test_rows_of_one_event_that_was_cut_into_entries_go_on_counting"
        " test_rows_of_a_compressed_transaction_are_ordered_by_their_number_in_it",
    ),
    "1.20": (
        "An update of a row without a key is stored as two changes, its old image and its new one; the "
        "decoder leaves it one event.",
        "test_an_update_of_a_row_without_a_key_is_its_old_image_as_a_delete_and_its_new_one_as_an_insert"
        " test_any_other_change_stays_whole"
        " test_an_update_of_a_row_without_a_key_stays_one_event",
    ),
    "1.21": (
        "Equal rows without a key are told apart by their row ids where the feed sends them.",
        "test_equal_rows_of_a_table_without_a_key_are_told_apart_by_their_handle"
        " test_equal_rows_of_keyless_tables_survive_anything_where_row_ids_are_sent"
        " test_database_table_key_epoch_commit_time_rank_and_row_tell_changes_apart",
    ),
    "1.22": (
        "Whether row ids are sent is a setting of the source, never chosen by message.",
        "test_whether_row_ids_are_sent_is_said_of_the_whole_source_and_not_told_by_a_message",
    ),
    "1.23": (
        "Without row ids equal rows are told apart by a hash of the image, and by the number of the equal "
        "image within its run.",
        "test_an_image_is_the_same_in_any_order_of_its_columns_and_another_with_any_other_value"
        " test_equal_halves_are_counted_within_one_run_and_each_half_by_itself",
    ),
    "1.24": (
        "A run is one commit of one physical table in one partition; another commit of that table ends it.",
        "test_another_commit_of_the_table_ends_a_run_and_one_of_another_table_does_not"
        " test_equal_rows_without_a_key_in_two_partitions_of_their_table_are_two",
    ),
    "1.25": (
        "A resolved event at or above its commit ts ends such a run.",
        "test_a_resolved_event_ends_the_runs_at_or_below_it_alone"
        " test_a_run_is_ended_by_a_resolved_event_below_the_last_one_though_that_came_before_any_row",
    ),
    "1.26": (
        "Such a run that is sent again adds only the equal rows that it has more of.",
        "test_equal_rows_of_keyless_tables_survive_replays_after_a_resolved_event"
        " test_a_run_goes_on_over_batches",
    ),
    "1.27": (
        "A message that arrives twice within one run of a table without a key, and without row ids, counts "
        "as a second equal row. Not kept: that it is counted and reported "
        "([limits](limits.md#what-no-feed-can-tell)).",
        "test_equal_halves_are_counted_within_one_run_and_each_half_by_itself",
    ),
    "1.28": (
        "Equal snapshot rows of a table without a key are told apart by their place in the snapshot.",
        "test_rows_of_a_snapshot_that_have_no_key_differ_by_their_place_in_the_topic"
        " test_equal_rows_without_a_key_are_told_apart_by_their_number",
    ),
    "1.29": (
        "canal-json without `pkNames`: the key of a table whose handle is a unique key comes from its "
        "schema.",
        "test_a_table_whose_handle_is_a_unique_key_has_no_key_on_the_wire"
        " test_of_several_unique_keys_the_handle_is_the_shortest_and_then_the_oldest"
        " test_t46_a_primary_key_takes_over_from_the_unique_key_that_was_the_handle",
    ),
    "1.30": (
        "A key that a table's YAML names identifies its rows where neither messages nor DDL tell one.",
        "test_a_key_that_is_said_of_a_table_identifies_its_rows",
    ),
    "1.31": (
        "Order of arrival over several partitions: a table whose keys stay in one partition is exact.",
        "test_a_table_that_is_not_reported_is_the_sources",
    ),
    "1.32": (
        "Keys that came in several partitions, as after a key change or another partitioning, are reported "
        "and not guessed.",
        "test_a_key_that_came_in_two_partitions_is_reported_and_one_that_stays_is_not",
    ),
    "1.33": (
        "A statement beside rows of other partitions is reported: their order is not known.",
        "test_a_statement_beside_rows_of_other_partitions_is_reported"
        " test_a_name_that_two_tables_had_is_reported"
        " test_an_index_beside_rows_of_other_partitions_is_nothing_to_report",
    ),
    "1.34": (
        "Canal: a replay may begin where the batch number falls, or begins again after a pause.",
        "test_however_often_and_far_back_a_feed_restarts_each_message_is_new_once"
        " test_restarts_in_a_row_that_each_owe_one_batch_are_told_by_their_pause",
    ),
    "1.35": (
        "canal-json without the TiDB extension: a replay begins where the commit time falls and two messages"
        " in a row were sent before.",
        "test_a_commit_time_that_falls_is_a_replay_only_where_two_messages_in_a_row_came_before",
    ),
    "1.36": (
        "Files without commit ts, of which a restarted sink writes rows again into later ones. Not kept: "
        "that these rows are recognised; a table without a key counts them twice, and says that it may "
        "([storage sinks](formats-storage.md)).",
        "test_files_without_commit_ts_may_repeat_rows_of_a_table_without_a_key",
    ),
    "1.37": (
        "Messages of a replay are compared without what differs by nature: batch number and send time.",
        "test_what_differs_by_nature_is_not_compared_and_all_else_is",
    ),
    "1.38": (
        "Messages of a replay that go on as the earlier messages did are duplicates, DDL included.",
        "test_rows_of_a_keyless_table_and_statements_that_come_again_have_no_second_effect"
        " test_what_a_restarted_canal_sends_again_has_no_second_effect"
        " test_batches_cut_anywhere_give_the_same",
    ),
    "1.39": (
        "A replay that leaves the earlier run before its end is applied as new from there on, and counted.",
        "test_a_replay_that_leaves_the_run_is_counted_and_goes_on_as_new"
        " test_rows_end_as_the_sources_however_a_replay_mixes_tables_and_wherever_batches_end"
        " test_a_contiguous_run_that_arrives_again_is_neutral_or_reported",
    ),
    "1.40": (
        "Append and history tables on a feed in order of arrival need `accept: [replays]`.",
        "test_a_mode_that_its_feed_can_not_serve_is_a_problem",
    ),
    "1.41": (
        "A table without a key on such a feed says what a replay does to it. Not kept: that it needs "
        "`accept` too; a YAML does not know the key.",
        "test_a_table_without_a_key_says_what_a_replay_does_to_it",
    ),
    "1.42": (
        "Of equal identities inside one message or file the later row stands.",
        "test_of_equal_identities_inside_one_message_the_later_row_stands",
    ),
    "1.43": (
        "A known identity with another value in a column that both images have is a dead letter `conflict`, "
        "and what stood first stands; so is a delete in place of a row.",
        "test_another_value_of_a_known_change_is_a_conflict_and_the_first_stands"
        " test_a_delete_in_place_of_a_row_is_a_conflict_and_a_delete_that_comes_again_is_none"
        " test_a_column_that_one_of_two_images_lacks_is_no_conflict"
        " test_silver_in_spark_jobs_equals_silver_on_the_driver",
    ),
    "1.44": (
        "The table of a dead letter is not exact until somebody has looked at it.",
        "test_dead_letters_of_a_table_leave_the_others_exact_and_those_of_no_known_table_none"
        " test_the_commands_of_an_operator_end_to_end"
        " test_garbage_becomes_dead_letters_and_the_tables_go_on_without_claiming_to_be_exact",
    ),
    "1.45": (
        "A server id that is first met below the highest position is another server's binlog.",
        "test_t19_a_new_server_below_the_highest_position_is_a_change_in_one_batch_or_two"
        " test_any_reading_of_one_binlog_is_no_change_and_another_servers_is_found_wherever_it_is_lower",
    ),
    "1.46": (
        "Another base name of the binlog's files is another server's binlog.",
        "test_t19_another_base_name_is_a_change_wherever_its_positions_are",
    ),
    "1.47": (
        "A server id of 0, as snapshot rows have it, and the several ids that a replica passes on are no "
        "change of servers.",
        "test_a_server_id_of_zero_says_nothing"
        " test_a_replicas_several_ids_each_first_met_above_are_none"
        " test_a_replay_goes_back_with_known_ids_and_is_none",
    ),
    "1.48": (
        "After a change of servers every table is incomplete until an epoch is raised and a snapshot has "
        "come. Not kept: that GTIDs tell which transactions come again "
        "([limits](limits.md#what-no-feed-can-tell)).",
        "test_t19_after_a_failover_every_table_is_incomplete_until_an_epoch_and_its_snapshot"
        " test_a_change_stands_until_an_epoch_above_it_is_reached_and_the_next_one_counts_again",
    ),
    "1.49": (
        "Bronze records an incarnation beside topic, partition and offset: Kafka's topic id, or a count of "
        "its own where offsets begin again.",
        "test_t20_a_topic_created_anew_begins_again_and_its_records_are_no_copies"
        " test_a_log_that_ends_below_what_was_read_begins_an_incarnation_of_our_own_count"
        " test_topics_of_a_broker_that_gives_no_ids_are_told_apart_by_count",
    ),
    "1.50": (
        "A record's epoch follows from its place in bronze, never from when it is decoded: silver that is "
        "built again has the same epochs.",
        "test_t20_a_topic_created_anew_begins_again_and_its_records_are_no_copies"
        " test_silver_is_built_again_after_a_setting_was_mended_with_imported_schemas_and_epochs_kept",
    ),
    "1.51": (
        "TiCDC: a topic that was created anew is another incarnation of the same epoch, and changes that "
        "come again are the same ones.",
        "test_a_topic_that_is_spoilt_grown_trimmed_and_recreated_is_landed_whole_and_exact_only_where_it_is",
    ),
    "1.52": (
        "In order of arrival, what a topic that was created anew holds stands above all that came before.",
        "test_a_feed_whose_order_is_offsets_goes_on_above_all_before_when_its_topic_is_created_anew",
    ),
    "1.53": (
        "A later epoch stands above all of an earlier one, and an operator raises it.",
        "test_t18_t19_a_later_epoch_stands_above_all_of_an_earlier_one"
        " test_the_commands_of_an_operator_end_to_end",
    ),
    "1.54": (
        "`epoch raise --restored-to T`: changes of before above T are void.",
        "test_the_commands_of_an_operator_end_to_end",
    ),
    "1.55": (
        "After `epoch raise` without `--restored-to` every table is incomplete until its next snapshot, or "
        "until it is emptied.",
        "test_an_epoch_leaves_every_table_incomplete_unless_it_says_what_is_void_or_goes_on"
        " test_a_table_that_is_emptied_in_an_epoch_is_exact_again"
        " test_t19_after_a_failover_every_table_is_incomplete_until_an_epoch_and_its_snapshot",
    ),
}
