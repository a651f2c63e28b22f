"""The records of a source's ops log: one frozen struct for each kind, in the module of who writes it.

    silver       planned → done           a batch before and after its writes
    bronze       read, partitions, gap    Kafka topics; backfill: recordings; scan, missing: a storage sink;
                 looked                   claim checks
    gold         intent → manifest        what is about to be published, and what is published
                 inferred                 columns that rows have and no DDL has added
                 lineages                 the ids that tables' lives were given
                 sightings                the shapes of rows from which schemas are inferred
                 spreads                  the partitions that rows lie in, where these do not compare
    operators    epoch, retired, dismissed, decision, imported, rebuild, accepted, floor, verified
                 rebuilding, generation   a generation of silver that is begun, and one that counts now
    runs         run                      what a run did
                 summary                  what the records of old batches said, which are no longer in the log

A record is stored as a JSON object under its `kind`. Its members are the struct's fields, under their own
names but where `rename` says otherwise, in the struct's order. A field with a default may be missing in the
records of older lakes. One that is UNSET, or of a struct with `omit_defaults`, is stored only where it says
something. Members that a newer lakehouse has added are ignored.

Times are milliseconds since 1970, positions six integers (lakehouse/events.py), `why` is the operator's own
words.
"""
