"""The differential oracle: random programs on a real MariaDB, encoded as TiCDC sends them, against what gold
makes of the messages.

    generate ──statements──▶ runner (MariaDB) ──▶ events, and the truth at every commit
             ──▶ check (encode, deliver, decode, fold, compare)

docs/oracle.md says how to run it and what it has found.
"""
