"""Tables, their schemas and their rows: what is to be right, and the tests that fail where it is not."""

# number: (what is to be right, tests)
RULES: dict[str, tuple[str, str]] = {
    # Tables and their names
    "5.1": (
        "A table's life begins with CREATE and ends with DROP: the next table of its name has none of its "
        "rows.",
        "test_t67_a_table_created_again_has_none_of_the_old_rows"
        " test_a_dropped_table_is_not_back_because_rows_of_its_successor_came_first"
        " test_a_table_whose_rows_come_before_its_create_is_not_there_below_them",
    ),
    "5.2": (
        "A dropped table is `retired`: its Delta table stays as it was.",
        "test_a_table_that_is_dropped_and_created_again_goes_on_in_its_delta_table",
    ),
    "5.3": (
        "RENAME keeps the table and changes its name.",
        "test_t64_t65_a_table_keeps_its_rows_through_a_chain_of_renames_with_changes_between"
        " test_a_table_that_only_a_rename_has_told_of_is_there_from_the_rename_on",
    ),
    "5.4": (
        "TRUNCATE empties a table.",
        "test_t38_a_truncate_takes_the_rows_below_it_and_leaves_those_above_it_in_any_arrival",
    ),
    "5.5": (
        "An edit whose IF [NOT] EXISTS is false where it stands has no effect.",
        "test_an_edit_whose_condition_is_false_has_no_effect"
        " test_a_create_if_not_exists_of_a_table_that_is_there_has_no_effect"
        " test_a_drop_if_exists_of_a_table_that_is_not_there_has_no_effect"
        " test_conditions_stay_with_what_they_condition",
    ),
    "5.6": (
        "A CREATE without that condition on a name that is in use ends the table of that name and begins "
        "another, which is noted.",
        "test_a_create_of_a_name_that_is_in_use_ends_its_table_and_says_so"
        " test_create_or_replace_ends_the_versions_and_goes_on",
    ),
    "5.7": (
        "Rows under the name of a dropped table reopen it, incomplete.",
        "test_rows_that_come_after_a_drop_reopen_the_table_which_is_incomplete"
        " test_a_recovered_table_has_its_rows_and_is_incomplete",
    ),
    "5.8": (
        "A table's id is given once: what becomes known later of its beginning changes its history and not "
        "its id.",
        "test_a_create_that_comes_late_changes_no_identity"
        " test_no_id_is_given_twice"
        " test_in_any_order_a_table_keeps_its_id_and_its_delta_table",
    ),
    "5.9": (
        "A table keeps its Delta table's name, whatever becomes known later of its beginning.",
        "test_a_create_that_comes_late_and_an_imported_schema_leave_a_table_its_delta_table_and_its_id"
        " test_in_any_order_a_table_keeps_its_id_and_its_delta_table",
    ),
    "5.10": (
        "After DROP and CREATE the name goes on in the same Delta table, and its past can still be read.",
        "test_a_table_that_was_created_again_takes_over_the_delta_table_of_the_dropped_one"
        " test_a_table_that_is_dropped_and_created_again_goes_on_in_its_delta_table",
    ),
    "5.11": (
        "`on_drop: keep` leaves the dropped table under another name.",
        "test_a_dropped_table_that_is_to_be_kept_stays_under_another_name",
    ),
    "5.12": (
        "Every reader of silver takes a table's changes by its life, never by name alone.",
        "test_t67_a_table_created_again_has_none_of_the_old_rows"
        " test_rows_of_a_dropped_table_under_the_same_name_are_no_loss"
        " test_a_rebuilt_table_equals_the_live_one_after_renames_and_replaces_a_wrong_one_in_one_commit",
    ),
    "5.13": (
        "Names in gold do not collide, in whatever case and with whatever underscores they are written, also"
        " between sources.",
        "test_tables_that_differ_in_case_alone_stay_two"
        " test_a_table_whose_names_alone_look_alike_takes_nothing_over"
        " test_two_that_claim_a_name_at_the_same_moment_both_leave_it"
        " test_a_name_is_read_in_one_delta_table_for_good_however_often_gold_runs",
    ),
    "5.14": (
        "A table that has another name in gold than its own says so.",
        "test_sources_with_the_same_tables_never_share_one",
    ),
    "5.15": (
        "A RENAME that brings another table under a name (gh-ost, pt-online-schema-change): gold has that "
        "table's rows where silver has them since its CREATE.",
        "test_t66_the_swap_of_a_ghost_table_gives_the_name_its_rows"
        " test_tables_that_swap_their_names_swap_their_delta_tables",
    ),
    "5.16": (
        "A RENAME that brings a table under a known name of which silver has not all rows since its CREATE "
        "leaves it incomplete. Not kept: that gold goes on with the rows of the table that had the name.",
        "test_a_table_that_no_message_has_told_of_takes_a_known_ones_name_and_is_incomplete"
        " test_it_is_complete_again_once_it_is_emptied_and_where_its_create_comes_late"
        " test_a_name_that_no_table_is_known_to_have_had_can_be_taken_by_any_table",
    ),
    "5.17": (
        "Ghost tables are in gold only where they are selected.",
        "test_a_ghost_table_is_in_gold_where_all_tables_are_alone"
        " test_the_table_that_takes_a_selected_name_is_selected_and_the_other_one_gets_no_table",
    ),
    # DDL and schemas
    "6.1": (
        "TiCDC: rows of a DDL's own commit ts belong to the schema before it.",
        "test_t38_a_truncate_takes_the_rows_below_it_and_leaves_those_above_it_in_any_arrival",
    ),
    "6.2": (
        "A DDL in a binlog stands before the rows of its place.",
        "test_a_truncate_is_the_statement_it_means test_schema_records_of_a_snapshot_are_no_ddl",
    ),
    "6.3": (
        "A DDL that is broadcast to several partitions, or comes again, is executed once: its identity is "
        "position, database and text.",
        "test_t47_t51_a_statement_that_is_broadcast_and_sent_again_is_executed_once"
        " test_a_batch_in_spark_jobs_is_the_batch_on_the_driver",
    ),
    "6.4": (
        "Several DDLs of one position are executed in the order in which each source name exists and each "
        "target is free.",
        "test_t50_renames_of_one_commit_are_executed_in_the_only_order_that_works"
        " test_t50_several_tables_of_one_statement_are_renamed_and_dropped_one_after_another",
    ),
    "6.5": (
        "A statement's edits, applied to a schema, give the next one.",
        "test_ids_names_and_order_follow_every_sequence_of_alters"
        " test_any_arrival_of_a_history_gives_the_sources_tables_at_every_commit",
    ),
    "6.6": (
        "A column has an id for life: RENAME keeps it, dropped and added again is another column.",
        "test_t52_t53_a_renamed_columns_old_name_added_again_is_another_column"
        " test_t54_a_column_dropped_and_added_with_another_type_has_none_of_its_old_values"
        " test_ids_names_and_order_follow_every_sequence_of_alters",
    ),
    "6.7": (
        "A row is decoded by the schema at its own position and carried forward edit by edit.",
        "test_t48_t49_rows_are_read_by_the_schema_of_their_place_whichever_side_of_a_ddl_they_arrive_on"
        " test_t76_rows_on_both_sides_of_a_ddl_are_each_read_by_their_own_schema"
        " test_t86_labels_are_those_of_the_schema_at_the_rows_place",
    ),
    "6.8": (
        "A change with columns that its schema lacks waits in silver and holds its own table alone.",
        "test_rows_that_no_schema_fits_wait_for_their_ddl_and_are_inferred_after_the_timeout"
        " test_the_fold_tells_the_first_place_of_a_column_that_its_schema_lacks"
        " test_t70_a_column_that_no_ddl_has_added_is_found_and_its_rows_are_kept",
    ),
    "6.9": (
        "After `drift_timeout` such columns are inferred, which is noted; a DDL that comes then takes their "
        "place.",
        "test_rows_that_no_schema_fits_wait_for_their_ddl_and_are_inferred_after_the_timeout"
        " test_inferred_columns_begin_where_rows_have_them_and_are_null_before"
        " test_a_ddl_that_comes_after_all_stands_in_place_of_what_was_inferred",
    ),
    "6.10": (
        "Existing rows have a new column's literal default, as the server fills it in.",
        "test_t59_existing_rows_read_a_new_columns_default test_existing_rows_read_what_mariadb_gave_them",
    ),
    "6.11": (
        "Existing values become, at a change of type, what the server makes of them.",
        "test_t57_t58_a_changed_type_makes_of_existing_values_what_the_server_makes"
        " test_every_value_becomes_what_mariadb_made_of_it",
    ),
    "6.12": (
        "Rows go with a dropped or truncated partition of a RANGE or LIST rule over plain columns.",
        "test_t39_a_partition_that_a_rule_describes_takes_its_rows_along"
        " test_t39_a_partition_of_a_known_rule_takes_its_rows_along"
        " test_rows_in_partitions_are_the_sources",
    ),
    "6.13": (
        "Defaults that the server computes (CURRENT_TIMESTAMP, UUID, RAND, AUTO_INCREMENT) are unknowable in"
        " existing rows.",
        "test_t59_a_default_that_no_message_tells_leaves_the_table_incomplete"
        " test_a_fill_that_the_source_computes_is_unknowable_beside_the_fill",
    ),
    "6.14": (
        "Values that a session's time zone decides are unknowable.",
        "test_a_type_that_a_session_decides_is_unknowable_beside_the_change"
        " test_a_new_timestamp_holds_what_the_servers_version_says",
    ),
    "6.15": (
        "Rows of any other dropped partition, and of one that was exchanged, are unknowable.",
        "test_t39_a_partition_that_no_plain_rule_describes_leaves_the_table_incomplete"
        " test_t39_what_an_exchange_moved_is_not_known_of_either_table"
        " test_rows_that_no_rule_tells_are_unknowable"
        " test_bounds_that_no_rule_reads_are_unknowable",
    ),
    "6.16": (
        "An unknowable effect goes as far as it can: new cells are NULL, and the table is incomplete from "
        "that position on.",
        "test_t59_a_default_that_no_message_tells_leaves_the_table_incomplete"
        " test_a_value_that_no_rule_converts_makes_its_table_incomplete_since_the_statement",
    ),
    "6.17": (
        "A snapshot mends an incomplete table.",
        "test_a_complete_snapshot_mends_an_incomplete_table"
        " test_incomplete_tables_are_read_again_and_no_other",
    ),
    "6.18": (
        "Without a CREATE the schema is inferred from the types that messages tell, from the table's first "
        "row on, in whatever order they arrive.",
        "test_tables_first_seen_without_a_create_are_read_by_what_their_messages_tell"
        " test_shapes_are_merged_in_the_order_of_their_first_rows"
        " test_every_run_looks_at_new_batches_in_one_query_and_finds_what_all_rows_tell",
    ),
    "6.19": (
        "In an inferred schema a DECIMAL without its precision is text, an ENUM without its labels NULL with"
        " its number beside it.",
        "test_what_no_schema_has_told test_t86_an_index_without_labels_is_null_with_the_index_beside_it",
    ),
    "6.20": (
        "`schema import` supplies a CREATE at a position, and the table is folded again.",
        "test_silver_is_built_again_after_a_setting_was_mended_with_imported_schemas_and_epochs_kept"
        " test_a_create_that_comes_late_and_an_imported_schema_leave_a_table_its_delta_table_and_its_id",
    ),
    "6.21": (
        "A feed without DDL: columns that rows bring are added, one that they cease to bring is never "
        "dropped.",
        "test_the_columns_of_a_table_are_those_that_its_rows_have_where_no_statement_tells_them"
        " test_a_debezium_feed_without_schemas_and_ddl_loses_no_column_and_says_that_types_are_missing",
    ),
    "6.22": (
        "A cell that no message tells is not NULL in silence.",
        "test_a_column_that_no_message_carries_is_not_null_in_silence",
    ),
    "6.23": (
        "`on_ddl` has a policy for each kind of edit: evolve, ignore, hold or reject.",
        "test_every_word_of_a_clause_is_one_that_a_yaml_may_say"
        " test_an_ignored_drop_keeps_the_column_with_old_rows_values_and_rows_written_since_have_none"
        " test_a_held_ddl_stops_its_table_there_and_says_which_kind_it_was"
        " test_a_rejected_ddl_can_be_skipped_and_not_approved"
        " test_holding_everything_shows_each_table_before_its_ddl_and_approving_everything_changes_nothing",
    ),
    "6.24": (
        "A statement that is not understood holds its own table.",
        "test_t71_a_statement_that_is_not_understood_holds_its_table_and_no_other"
        " test_a_statement_that_cannot_be_read_holds_the_table_that_it_names",
    ),
    "6.25": (
        "`ddl approve` and `ddl skip` let a held table go on.",
        "test_a_held_table_waits_and_goes_on_where_an_operator_says_while_the_others_are_exact"
        " test_an_unreadable_ddl_is_approved_as_the_statement_that_an_operator_says_it_means"
        " test_an_unreadable_ddl_that_is_skipped_never_was",
    ),
    # The fold
    "7.1": (
        "A table's rows are a function of its changes, its schema history and a position: the order of "
        "arrival counts for nothing.",
        "test_any_arrival_of_a_history_gives_the_sources_tables_at_every_commit"
        " test_the_order_in_which_silver_holds_its_rows_and_ddl_is_nothing"
        " test_a_moment_between_two_commits_shows_the_state_after_the_first",
    ),
    "7.2": (
        "The tables at each watermark on the way are right already.",
        "test_the_tables_at_each_watermark_on_the_way_are_already_right"
        " test_gold_is_the_database_at_every_watermark_of_random_programs_in_every_format",
    ),
    "7.3": (
        "Going on from gold's rows, window by window, gives what all changes at once give.",
        "test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark"
        " test_window_by_window_gives_what_all_changes_at_once_give"
        " test_every_way_gives_the_same_rows",
    ),
    "7.4": (
        "Of several changes of one row the one of the greatest position stands.",
        "test_t03_of_many_changes_of_one_key_the_last_one_stands"
        " test_t07_changes_of_one_second_stand_in_their_position",
    ),
    "7.5": (
        "Rows are matched by the values of their key, however these are written.",
        "test_t40_t44_a_key_is_one_value_however_it_is_written"
        " test_t44_binary_keys_are_their_bytes_with_the_zero_bytes_that_canal_cuts"
        " test_rows_whose_keys_gold_cannot_hold_are_not_taken_for_each_other",
    ),
    "7.6": (
        "A key column that is renamed, or gets another type, keeps the row.",
        "test_a_key_that_is_renamed_or_extended_keeps_the_row"
        " test_a_key_whose_column_changes_its_type_is_the_same_row",
    ),
    "7.7": (
        "Text in keys is compared by code points, whatever the collation.",
        "test_t43_a_key_that_changes_in_case_alone_is_one_row_with_the_new_text",
    ),
    "7.8": (
        "A DDL that changes the key rekeys the rows below it, also for changes that come late.",
        "test_t45_rows_are_those_of_the_new_key_from_its_ddl_on"
        " test_any_arrival_of_a_history_gives_the_sources_tables_at_every_commit",
    ),
    "7.9": (
        "A change at or below what gold has applied: its row is folded again from its own changes.",
        "test_what_comes_late_brings_the_changes_of_its_row_alone_to_the_driver"
        " test_a_large_window_with_changes_that_came_late_is_merged_too"
        " test_windows_that_cut_a_commit_in_two_and_late_rows_give_the_same",
    ),
    "7.10": (
        "A partial image is merged column by column: what it leaves out keeps its value.",
        "test_t62_t94_columns_that_an_update_leaves_out_keep_their_values"
        " test_t94_a_partial_new_image_keeps_what_it_leaves_out"
        " test_every_way_completes_rows_alike_and_says_the_same",
    ),
    "7.11": (
        "A deleted row does not come back, however late an older change comes.",
        "test_t12_t13_an_older_change_behind_a_delete_brings_no_row_back"
        " test_t36_a_delete_of_an_unknown_key_makes_no_row_and_is_remembered",
    ),
    "7.12": (
        "A table whose schema history changes at or below what gold has applied is folded again.",
        "test_a_create_that_comes_late_and_an_imported_schema_leave_a_table_its_delta_table_and_its_id"
        " test_rows_that_no_schema_fits_wait_for_their_ddl_and_are_inferred_after_the_timeout",
    ),
    "7.13": (
        "A table that is folded again is replaced in one commit, which keeps the Delta table and its "
        "history.",
        "test_a_rebuilt_table_equals_the_live_one_after_renames_and_replaces_a_wrong_one_in_one_commit"
        " test_a_table_that_is_dropped_and_created_again_goes_on_in_its_delta_table",
    ),
    "7.14": (
        "Column comments are the source's, after a fold as after a change in place.",
        "test_a_changed_table_is_what_a_fold_of_its_log_gives",
    ),
    "7.15": (
        "A lossy change of type converts a large table's rows, or folds it again where they do not tell what "
        "becomes of them; a lossless one is an ALTER.",
        "test_a_changed_table_is_what_a_fold_of_its_log_gives"
        " test_a_value_that_the_former_type_could_not_hold_goes_along_or_is_looked_at_again"
        " test_a_cell_that_is_converted_in_place_is_what_a_fold_makes_of_it",
    ),
    "7.16": (
        "A DDL without effect on rows folds nothing again.",
        "test_a_changed_table_is_what_a_fold_of_its_log_gives test_t79_what_has_no_effect_on_rows_has_none",
    ),
    "7.17": (
        "A rebuild is compared with the live table in a scratch table that does not stay.",
        "test_a_rebuilt_table_equals_the_live_one_after_renames_and_replaces_a_wrong_one_in_one_commit",
    ),
    "7.18": (
        "A table without a key is a multiset: one less for each old image, one more for each new one.",
        "test_t42_a_delete_takes_one_of_several_equal_rows"
        " test_equal_rows_of_a_keyless_table_go_one_by_one"
        " test_t41_a_unique_key_with_null_names_no_row_and_equal_rows_go_one_by_one",
    ),
    "7.19": (
        "In a table without a key a partial old image takes one row that agrees with the columns it has.",
        "test_a_partial_update_keeps_the_cells_of_the_row_that_it_replaces"
        " test_several_partial_updates_follow_one_row",
    ),
    "7.20": (
        "Where rows that agree with a partial old image differ, the table says so.",
        "test_of_several_rows_that_agree_none_is_chosen_in_silence test_equal_rows_are_no_doubt",
    ),
    "7.21": (
        "A delete of a row without a key that nobody inserted is told.",
        "test_a_delete_of_a_keyless_row_that_nobody_inserted_says_so"
        " test_a_partial_change_of_a_row_that_nobody_inserted_says_so",
    ),
}
