"""The oracle over the pipeline that users run: many programs as the tables of one lake, several formats
side by side as its sources, delivered over several runs, and gold compared at every manifest.

    plan ──▶ deliver (recordings and trees, cut at random) ──▶ play (runs, crashes, OPTIMIZE) ──▶ compare

docs/oracle.md says how to run it.
"""
