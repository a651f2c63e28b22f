"""The soak tells a leak from garbage: by live objects and the Python driver, not by resident memory."""

from collections import Counter

from bench.memory import Sample, grown, histogram_classes, native_areas
from bench.soak import growth

HISTOGRAM = """ num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:        341271       22031736  [B (java.base@17.0.9)
   2:           208          11648  org.apache.spark.Dependency
   3:             7            448  org.apache.spark.Dependency
Total        341486       22043832
"""
NATIVE = """Native Memory Tracking:

Total: reserved=3935893KB, committed=1006289KB
-                 Java Heap (reserved=2097152KB, committed=500000KB)
                            (mmap: reserved=2097152KB, committed=500000KB)

-                     Class (reserved=1048938KB, committed=1000KB)
                            (classes #27)
-                 Metaspace (reserved=131072KB, committed=125KB)
"""


def sampled(at: float, live: float, driver: float, resident: float) -> Sample:
    return Sample(at, resident, resident, live, 100, 50, 50, driver, 300, Counter())


def test_garbage_that_fills_the_heap_is_no_growth() -> None:
    quarters = [[sampled(n, 100, 200, 1_000 * (n + 1))] for n in range(4)]

    assert growth(quarters) == 1.0


def test_objects_that_stay_and_a_python_driver_that_grows_are() -> None:
    live = [[sampled(n, 100 * n, 100, 2_000)] for n in range(4)]
    driver = [[sampled(n, 100, 100 * n, 2_000)] for n in range(4)]

    assert growth(live) == growth(driver) == 2.0


def test_a_sample_in_the_middle_of_a_batch_does_not_decide() -> None:
    quarters = [[sampled(n, 100, 100, 1_000)] * 3 for n in range(4)]
    quarters[2].append(sampled(9, 900, 100, 1_000))

    assert growth(quarters) == 1.0


def test_a_histogram_is_read_by_class_whichever_loaders_there_are() -> None:
    assert histogram_classes(HISTOGRAM) == {"[B": 22_031_736, "org.apache.spark.Dependency": 12_096}


def test_native_memory_is_read_by_area_in_megabytes() -> None:
    assert native_areas(NATIVE) == {"Java Heap": 512.0, "Class": 1.024, "Metaspace": 0.128}


def test_the_classes_that_grew_most_come_first() -> None:
    first, last = Counter(a=5, b=5, c=5), Counter(a=6, b=9, c=5, d=1)

    assert grown(first, last, 2) == [("b", 5, 9), ("a", 5, 6)]
