"""The page docs/semantics-coverage.md: every trap of CDC by its number, what it is, and the tests that cover
it. The pages of rules stand beside it (tests/traps/model_cases.py).

    python -m tests.traps.trap_cases docs/semantics-coverage.md

A test whose name says the number (`test_t42_…`, `test_t10_t11_…`, `test_t81_to_t101_…`) is found by itself;
the others stand in CASES.
"""

import re
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.traps.finding_cases import FINDINGS
from tests.traps.model_cases import PAGES, rule_page

TESTS = ROOT / "tests"
MENDED = "Mistakes of our own that were found and mended"
HEAD = """# Semantics: the traps, and the tests that cover them

Change data capture goes wrong in well-known ways. Each of them has a number here, one line that says what is
to be right, and the tests
that would fail if it were not. `python -m tests.traps.trap_cases docs/semantics-coverage.md` writes the
page; a test holds it to the tests
that there are.

The rules by which none of it goes wrong have pages of their own: [from feeds to silver](model-coverage.md),
[from silver to gold](model-coverage-gold.md).

"""
# number: (what is to be right, tests that do not carry the number in their names); a case with no test at all
# says why in its text
CASES: dict[str, tuple[str, str]] = {
    "Order, duplicates, replay": ("", ""),
    "T01": ("A delete and an insert of one key at one commit time: the row is there.", ""),
    "T02": ("A row inserted and then deleted in one MySQL transaction is gone.", ""),
    "T03": ("Many changes of one key in one batch: the last image alone.", ""),
    "T04": ("Two keys swapped by one transaction are swapped.", ""),
    "T05": ("A chain of key changes in either order keeps every row.", ""),
    "T06": ("A key change sent to another partition removes the old key.", ""),
    "T07": ("Changes of one second stand in the order of their positions.", ""),
    "T08": ("Rows of one statement at one binlog position stand in their order.", ""),
    "T09": ("Positions are compared as numbers.", ""),
    "T10": (
        "An exact redelivery has no effect.",
        "test_replays_repeats_and_b_a_b_change_nothing "
        "test_equal_rows_of_keyless_tables_survive_replays_after_a_resolved_event"
        " test_however_often_and_far_back_a_feed_restarts_each_message_is_new_once"
        " test_what_a_restarted_canal_sends_again_has_no_second_effect",
    ),
    "T11": (
        "A redelivered prefix never shows the past again.",
        "test_any_arrival_of_a_history_gives_the_sources_tables_at_every_commit",
    ),
    "T12": ("An older change behind a delete brings nothing back.", ""),
    "T13": ("Nor does one that is very old: deletes are remembered as long as silver's log is.", ""),
    "T14": ("A watermark never goes back.", ""),
    "T15": (
        "A partition that stalls holds the watermark and is named.",
        "test_status_and_plan_say_how_far_a_lake_is_and_change_nothing"
        " test_a_topic_without_tables_holds_nothing_until_there_is_one_again",
    ),
    "T16": ("`dispatcher = ts`: rows of a key in any partition stand by commit time.", ""),
    "T17": (
        "Rows of a table that moved between nodes come late and count.",
        "test_the_tables_at_each_watermark_on_the_way_are_already_right"
        " test_a_new_change_below_the_published_watermark_makes_its_table_incomplete_until_a_later_one",
    ),
    "T18": ("A restored cluster's smaller commit times stand above in a new epoch.", ""),
    "T19": ("After a failover with lower binlog positions too.", ""),
    "T20": (
        "A topic created anew is told from the old one by its incarnation.",
        "test_a_log_that_ends_below_what_was_read_begins_an_incarnation_of_our_own_count"
        " test_partitions_that_a_topic_created_anew_no_longer_has_do_not_count"
        " test_a_broker_that_begins_or_ceases_to_tell_ids_names_the_topic_that_is_there",
    ),
    "T21": ("The connector's clock orders nothing.", ""),
    "T22": (
        "A commit whose driver died before it recorded it is not made twice.",
        "test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake"
        " test_random_sigkills_of_a_run_over_a_topic_change_nothing",
    ),
    "T23": (
        "A second writer is refused and told who holds the lock.",
        "test_a_second_run_is_told_who_holds_the_lock",
    ),
    "T24": ("One change in two topics or partitions has one effect.", ""),
    "Transactions and snapshots": ("", ""),
    "T25": (
        "A transaction cut over batches is shown whole or not at all.",
        "test_a_moment_between_two_commits_shows_the_state_after_the_first",
    ),
    "T26": ("So is one over many tables.", ""),
    "T27": ("So is one of any size.", ""),
    "T28": (
        "A streamed change is newer than the snapshot row it crosses.",
        "test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it"
        " test_rows_of_an_incremental_snapshot_rank_below_the_stream_and_clear_nothing",
    ),
    "T29": (
        "A snapshot and a change print one value in two ways: it is one value.",
        "test_two_prints_of_one_float_are_equal",
    ),
    "T30": (
        "A changefeed that begins after the dump leaves a gap that no message tells; what it "
        "replays below the dump is no change:"
        " a snapshot stands at its own position.",
        "test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it",
    ),
    "T31": (
        "A second snapshot removes what was deleted meanwhile and loses nothing behind it.",
        "test_a_complete_snapshot_clears_what_the_gap_deleted_and_keeps_the_stream_behind_it"
        " test_a_table_that_is_empty_in_the_snapshot_is_cleared_and_one_without_a_record_is_retired"
        " test_a_complete_snapshot_mends_an_incomplete_table",
    ),
    "T32": (
        "An aborted or older snapshot changes nothing.",
        "test_an_aborted_snapshot_clears_nothing test_a_snapshot_is_whole_with_its_last_row",
    ),
    "T33": (
        "A first update is the row, a first delete is none.",
        "test_a_first_update_or_delete_of_a_key_is_no_problem",
    ),
    "Deletes, truncate, keys": ("", ""),
    "T34": ("A tombstone is no data.", "test_heartbeats_tombstones_and_transaction_markers_give_no_event"),
    "T35": (
        "A delete that carries the key alone removes the row.",
        "test_a_delete_of_which_only_the_key_was_sent_says_so",
    ),
    "T36": ("A delete of an unknown key makes no row and is remembered.", ""),
    "T37": (
        "Soft deletes: a row inserted again is live, with its new values only.",
        "test_a_soft_deleted_row_keeps_its_values_and_comes_back_whole",
    ),
    "T38": (
        "TRUNCATE takes the rows below it and none above it.",
        "test_a_truncate_is_the_statement_it_means",
    ),
    "T39": (
        "Partitions dropped, truncated, exchanged: exact where a rule tells the rows, else incomplete.",
        "",
    ),
    "T40": (
        "A row that moves leaves no copy behind.",
        "test_an_update_of_the_key_is_a_delete_and_then_an_insert",
    ),
    "T41": ("A unique key with NULL identifies no row.", ""),
    "T42": (
        "Equal rows of a keyless table go one by one.",
        (
            "test_equal_rows_of_a_keyless_table_go_one_by_one "
            "test_equal_rows_of_keyless_tables_survive_anything_where_row_ids_are_sent"
        ),
    ),
    "T43": ("'a' to 'A' in a key is one row with the new text.", ""),
    "T44": (
        "A key is one value however it is written.",
        "test_rows_whose_keys_gold_cannot_hold_are_not_taken_for_each_other",
    ),
    "T45": ("A changed primary key rekeys the rows at its DDL.", ""),
    "T46": ("A primary key takes over from a unique one.", ""),
    "DDL and schema": ("", ""),
    "T47": ("A DDL that is broadcast is executed once.", ""),
    "T48": ("Rows of a later schema that arrive before their DDL wait for nothing but their place.", ""),
    "T49": ("Rows of an older schema that arrive after the DDL are read by theirs.", ""),
    "T50": ("The parts of a split RENAME or DROP are executed in the order that works.", ""),
    "T51": (
        "A replayed DDL has no second effect.",
        "test_rows_of_a_keyless_table_and_statements_that_come_again_have_no_second_effect",
    ),
    "T52": (
        "Two DDLs in one batch, each between its rows.",
        "test_ids_names_and_order_follow_every_sequence_of_alters",
    ),
    "T53": ("A renamed column's old name added again is another column.", ""),
    "T54": ("A column dropped and added again has none of its old values.", ""),
    "T55": ("Two columns swap their names in one statement.", ""),
    "T56": ("FIRST and AFTER move a column; values go by name.", ""),
    "T57": ("A widening changes no value.", "test_a_widening_compiles_to_nothing"),
    "T58": (
        "A lossy change of type does to existing values what the server does.",
        "test_every_value_becomes_what_mariadb_made_of_it test_reordering_an_enums_members_keeps_every_label",
    ),
    "T59": ("Existing rows read a new column's default.", "test_existing_rows_read_what_mariadb_gave_them"),
    "T60": ("A new default or nullability touches no row.", ""),
    "T61": (
        "Generated columns: virtual ones are on no wire, stored ones are.",
        "test_virtual_columns_are_in_the_schema_and_in_no_row",
    ),
    "T62": ("A column that is not sent is not NULL.", "test_null_is_a_value_and_an_unsent_column_is_absent"),
    "T63": ("Invisible columns are columns.", ""),
    "T64": (
        "RENAME TABLE keeps the table.",
        "test_a_table_that_moves_to_another_database_is_followed_though_the_statement_leaves_out_the_old_one",
    ),
    "T65": ("A chain of renames with changes between them, in any arrival.", ""),
    "T66": ("The swap of an online schema change.", ""),
    "T67": ("DROP and CREATE of one name are two tables.", ""),
    "T68": (
        "RECOVER and FLASHBACK bring rows back that no message tells: incomplete.",
        "test_a_recovered_table_has_its_rows_and_is_incomplete"
        " test_a_truncated_table_flashed_back_under_a_new_name_leaves_the_old_one_complete"
        " test_a_database_flashed_back_under_a_new_name_has_the_tables_that_its_drop_ended"
        " test_a_cluster_flashed_back_leaves_every_table_incomplete",
    ),
    "T69": ("DROP DATABASE ends its tables.", "test_databases_are_dropped_in_any_case"),
    "T70": ("A DDL that was filtered upstream is noticed by its columns.", ""),
    "T71": (
        "A statement that is not understood holds its own table.",
        "test_any_text_is_statements_or_a_ddl_error",
    ),
    "T72": ("Statements about other things touch nothing.", ""),
    "T73": (
        "A schema that changed while nothing ran is followed at the next start.",
        (
            "test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark "
            "test_a_snapshot_brings_the_columns_that_the_gap_changed"
        ),
    ),
    "T74": (
        "A schema version that changes nothing is no change.",
        "test_a_recorded_tree_gives_its_statements_and_its_checkpoint",
    ),
    "T75": (
        "A DDL that some shards have and others do not.",
        "test_a_column_that_some_shards_have_is_in_all_and_types_that_differ_become_one_that_holds_both",
    ),
    "T76": (
        "A DDL between changes of one batch.",
        "test_a_recording_that_grows_gives_the_engines_tables_at_every_watermark",
    ),
    "T77": (
        "Names may be anything, and never collide.",
        "test_a_statement_in_another_case_is_about_the_table_that_its_message_names "
        "test_tables_that_differ_in_case_alone_stay_two"
        " test_a_source_column_named_like_a_companion_keeps_its_values",
    ),
    "T78": ("A column renamed in case alone is a rename.", ""),
    "T79": ("Comments, indexes, charsets and partitioning have no effect on rows.", ""),
    "T80": (
        "A reader of silver never meets another schema.",
        "test_a_renamed_table_has_all_its_changes_under_its_newest_name_and_columns"
        " test_values_are_resolved_as_gold_resolves_them_and_older_rows_lack_a_newer_column",
    ),
    "Values and types": ("", ""),
    "T81": ("BIGINT UNSIGNED and numbers beyond a double are exact.", "test_integers_of_any_size_are_exact"),
    "T82": ("DECIMAL to (65,30) is exact.", "test_debezium_decimals_are_unscaled_twos_complement"),
    "T83": (
        "A FLOAT is its shortest text.",
        "test_two_prints_of_one_float_are_equal test_a_float_reads_as_its_shortest_number",
    ),
    "T84": ("BIT(n) is an unsigned number in any byte order.", ""),
    "T85": ("TINYINT(1) is a number.", ""),
    "T86": (
        "ENUM and SET have the labels of their row's schema.",
        "test_an_enum_index_is_the_label_at_that_place",
    ),
    "T87": ("The invalid ENUM value is ''.", ""),
    "T88": (
        "TIME from -838:59:59 to 838:59:59, with its fraction.",
        "test_time_is_text_or_microseconds",
    ),
    "T89": ("YEAR 0 stays 0.", ""),
    "T90": (
        "A zero or partial date is NULL with its text beside it.",
        "test_rows_whose_keys_gold_cannot_hold_are_not_taken_for_each_other",
    ),
    "T91": (
        "Dates from year 1 to 9999, before 1970 too.",
        "test_debezium_numbers_are_days_and_microseconds_since_the_epoch",
    ),
    "T92": ("TIMESTAMP is UTC, DATETIME has no zone.", "test_a_timestamp_is_the_same_instant_in_every_zone"),
    "T93": ("NULL, absent, 'null' and a default are four things.", "test_null_is_not_absent"),
    "T94": (
        "What a partial image leaves out stays.",
        "test_old_values_of_only_updated_columns_are_completed_from_the_new_ones"
        " test_columns_that_a_malformed_old_image_lost_are_not_made_up"
        " test_a_minimal_row_image_is_completed_from_the_old_one_and_flagged",
    ),
    "T95": ("Canal's `old` holds unchanged columns: no harm.", ""),
    "T96": (
        "Bytes are the same from every format.",
        (
            "test_bytes_quoted_as_go_does_come_back "
            "test_binary_is_base64_whether_it_came_as_bytes_or_as_characters"
        ),
    ),
    "T97": (
        "Text of any charset is text.",
        "test_text_is_read_in_its_charset_or_collation test_latin1_is_windows_1252_with_its_holes",
    ),
    "T98": ("JSON keeps its text.", ""),
    "T99": (
        "Text that is none is kept as its bytes.",
        "test_text_that_is_none_is_kept_as_its_bytes_and_leaves_its_row_open "
        "test_any_bytes_in_a_text_are_text_or_themselves"
        " test_gold_has_null_and_the_bytes_beside_it test_a_key_that_is_no_text_is_a_dead_letter_of_its_row",
    ),
    "T100": (
        "CSV in every dialect.",
        "test_what_the_sink_writes_is_read_back_in_every_dialect "
        "test_the_null_word_is_null_only_without_quotes"
        " test_changes_written_in_any_setting_are_read_back",
    ),
    "T101": ("ZEROFILL, GEOMETRY and VECTOR.", "test_geometries_and_vectors_need_no_schema"),
    "Transport and operations": ("", ""),
    "T102": (
        "Framing that does not add up is one dead letter.",
        "test_framing_that_does_not_add_up_refuses_the_whole_message",
    ),
    "T103": (
        "Control messages are no data.",
        "test_heartbeats_tombstones_and_transaction_markers_give_no_event "
        "test_begin_commit_heartbeat_and_the_rollback_of_nothing_give_no_event"
        " test_what_is_neither_a_change_nor_a_statement_gives_no_event "
        "test_a_heartbeat_packet_gives_no_event",
    ),
    "T104": (
        "An unknown message is a dead letter and stops nothing.",
        "test_a_message_of_another_shape_is_a_dead_letter test_random_bytes_are_events_or_dead_letters"
        " test_garbage_becomes_dead_letters_and_the_tables_go_on_without_claiming_to_be_exact",
    ),
    "T105": (
        "Compressed, claim-check and handle-key-only messages are resolved, or said to be unresolved.",
        "test_what_was_compressed_comes_back "
        "test_a_claim_check_event_gets_the_payload_s_key_and_value_and_its_neighbours_stay"
        " test_claim_check_rows_are_whole_with_their_folder_and_unresolved_without"
        " test_a_row_sent_as_its_key_alone_is_unresolved_unless_it_is_deleted",
    ),
    "T106": (
        "Parts of one message are joined over batches; an incomplete tail waits.",
        "test_however_entries_are_cut_mixed_and_repeated_they_come_back_whole "
        "test_batches_cut_anywhere_give_what_one_batch_gives"
        " test_the_last_parts_of_a_batch_wait",
    ),
    "T107": (
        "One bad row of many is one dead letter.",
        (
            "test_a_row_that_cannot_be_read_leaves_its_neighbours "
            "test_a_row_that_cannot_be_read_leaves_the_rows_beside_it_alone"
        ),
    ),
    "T108": (
        "Files that are half written, empty or only announced wait.",
        "test_an_empty_and_a_half_written_file_wait_and_hold_nothing_else "
        "test_an_index_may_name_a_file_that_is_not_there_yet"
        " test_a_file_rewritten_after_a_crash_lands_again",
    ),
    "T109": (
        "Gold never goes beyond the checkpoint.",
        "test_at_every_checkpoint_that_lands_all_rows_up_to_it_have_landed",
    ),
    "T110": (
        "All layouts of a storage sink.",
        "test_a_data_file_is_known_by_its_path test_a_schema_file_is_known_by_its_path",
    ),
    "T111": (
        "Many files are not listed again.",
        "test_ten_thousand_files_are_landed_once_and_a_new_one_costs_a_few_calls",
    ),
    "T112": (
        "What was lost before it was read is said.",
        "test_every_record_is_landed_once_or_counted_as_lost_and_holes_that_the_broker_still_has_are_not"
        " test_a_jump_of_the_sequence_is_a_gap_and_never_joins_parts "
        "test_what_a_change_does_not_tell_leaves_its_table_incomplete_for_good"
        " test_messages_that_land_below_those_that_were_read_are_decoded",
    ),
    "T113": (
        "One table's failure stops that table alone.",
        "test_a_held_table_waits_and_goes_on_where_an_operator_says_while_the_others_are_exact",
    ),
    "T114": (
        "`plan` shows what a run would do.",
        "test_status_and_plan_say_how_far_a_lake_is_and_change_nothing",
    ),
    "T115": (
        "Quality rules and merging go together.",
        (
            "test_a_rejected_row_stays_out_with_its_reason_while_the_rest_is_merged "
            "test_folding_in_spark_jobs_rejects_what_the_driver_rejects"
        ),
    ),
    "T116": (
        "An option that is unknown or does nothing is an error.",
        "test_every_problem_of_every_file_is_told_at_once_with_its_place_and_what_to_do",
    ),
    "T117": (
        "Maintenance waits for a run's lock, and takes nothing that a manifest or a replay needs.",
        "test_maintenance_keeps_every_manifest_that_is_to_be_kept_and_every_replay",
    ),
    "T118": (
        "History without empty or overlapping intervals.",
        "test_intervals_are_never_empty_never_overlap_and_never_meet_alike"
        " test_the_current_versions_are_the_table_at_every_commit"
        " test_no_arrival_and_no_replay_changes_any_version",
    ),
    "T119": (
        "Shards merged into one table.",
        "test_shards_are_one_table_through_moves_collisions_ddl_and_drops",
    ),
    "T120": (
        "The books close.",
        (
            "test_a_book_that_does_not_close_is_a_number "
            "test_garbage_becomes_dead_letters_and_the_tables_go_on_without_claiming_to_be_exact"
        ),
    ),
}


def known_tests() -> dict[str, str]:
    """Every test by its name, with its file."""
    found: dict[str, str] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M):
            found.setdefault(name, str(file.relative_to(TESTS.parent)))
    return found


def numbers(name: str) -> set[int]:
    """The cases that a test's name tells."""
    head = re.match(r"test((?:_t\d+|_to(?=_t\d))+)_", name)
    parts = head[1].strip("_").split("_") if head else []
    found = {int(part[1:]) for part in parts if part != "to"}
    for place in (place for place, part in enumerate(parts) if part == "to"):
        found |= set(range(int(parts[place - 1][1:]), int(parts[place + 1][1:])))
    return found


def covering(case: str, tests: dict[str, str]) -> list[str]:
    named = [name for name in tests if int(case[1:]) in numbers(name)]
    return [*named, *(name for name in CASES[case][1].split() if name not in named)]


def page() -> str:
    tests = known_tests()
    lines = []
    for case, (text, _) in CASES.items():
        if not text:
            lines += [f"\n## {case}\n", "| | what is to be right | tests |", "|---|---|---|"]
            continue
        found = [f"`{name}` ({tests.get(name, 'missing')})" for name in covering(case, tests)]
        lines.append(f"| {case} | {text} | {', '.join(found) or 'none yet'} |")
    lines += [f"\n## {MENDED}\n", "| | what is to be right | tests |", "|---|---|---|"]
    for number, (text, names) in FINDINGS.items():
        found = [f"`{name}` ({tests.get(name, 'missing')})" for name in names.split()]
        lines.append(f"| {number} | {text} | {', '.join(found)} |")
    return HEAD.rstrip() + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    for name in PAGES:
        Path(sys.argv[1]).with_name(name).write_text(rule_page(name, known_tests()), encoding="utf-8")
