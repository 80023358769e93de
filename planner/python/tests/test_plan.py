"""Tests of the installed wheel: run `python -m unittest` in this folder."""
import array
import ast
import copy
import importlib.metadata
import pathlib
import pickle
import random
import signal
import threading
import time
import unittest

try:
    import numpy
except ImportError:
    numpy = None

import ringfence_alias
from ringfence_alias import CapacityNotMet, Heap, Item, plan, plan_heaps, replan_heaps, verify, verify_heaps


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def generated(many, seed):
    source = random.Random(seed)
    buffers = []
    for _ in range(many):
        lower = source.randrange(many)
        buffers.append((lower, lower + 1 + source.randrange(40), 1 + source.randrange(1 << 20)))
    return buffers


class Plans(unittest.TestCase):
    def test_the_readme(self):
        buffers = [(0, 2, 6 << 20), (1, 3, 4 << 20), (2, 4, 6 << 20), (3, 5, 2 << 20)]
        found = plan(buffers, alignment=256, time_limit=100)
        self.assertEqual((found.height, found.load, found.lower_bound, found.is_proven), (10 << 20, 10 << 20, 10 << 20, True))
        self.assertEqual(found.offsets[0], found.offsets[2])
        verify(buffers, found.offsets, found.height, alignment=256)

    def test_plans_hold_by_a_comparison_of_all_pairs(self):
        for seed in range(20):
            buffers = [buffer + (1 << seed % 9,) for buffer in generated(80, seed)]
            found = plan(buffers, time_limit=0.05)
            self.assertGreaterEqual(found.lower_bound, found.load)
            for place, buffer in enumerate(buffers):
                at = found.offsets[place]
                self.assertEqual(at % buffer[3], 0)
                self.assertLessEqual(at + buffer[2], found.height)
                for other, at_other in zip(buffers[:place], found.offsets):
                    apart = at + buffer[2] <= at_other or at_other + other[2] <= at
                    self.assertTrue(apart or not overlap(buffer, other))

    def test_what_cannot_be_is_a_value_error_with_its_number(self):
        with self.assertRaisesRegex(ValueError, "item 1 has size 0"):
            plan([(0, 1, 8), (0, 1, 0)])
        with self.assertRaisesRegex(ValueError, "item 0 lives from 5 to 5"):
            plan([(5, 5, 8)])
        with self.assertRaisesRegex(ValueError, "alignment 3"):
            plan([(0, 1, 8, 3)])
        with self.assertRaisesRegex(ValueError, "items 0 and 1 share bytes"):
            verify([(0, 2, 8), (1, 3, 8)], [0, 4], 100)
        with self.assertRaisesRegex(ValueError, "seconds"):
            plan([(0, 1, 8)], time_limit=-1)

    def test_heaps_pins_and_pages(self):
        heaps = [Heap(1 << 20, granularity=1024), Heap(1 << 30, class_=1)]
        items = [
            Item(4096, 0, 9, pinned=(0, 65536)),
            Item(300_000, 0, 4, kind=1, classes=[0, 1]),
            Item(900_000, 2, 6, kind=1, classes=[0, 1]),
        ]
        found = plan_heaps(heaps, items, time_limit=100)
        self.assertEqual(found.offsets[0], (0, 65536))
        self.assertEqual(found.fallback_bytes, 300_000)
        self.assertTrue(found.is_proven)
        self.assertEqual(sum(found.heights), found.height)
        verify_heaps(heaps, items, found.offsets)
        items.append(Item(64, 0, 9))
        again = replan_heaps(heaps, items, (*found.offsets, None))
        self.assertEqual((again.kept_count, again.offsets[:3]), (3, found.offsets))
        with self.assertRaisesRegex(ValueError, "have different kinds and share the page"):
            verify_heaps(heaps, [Item(100, 0, 9), Item(8, 0, 9, kind=1)], [(0, 0), (0, 200)])
        with self.assertRaisesRegex(ValueError, "fits no heap"):
            plan_heaps(heaps, [Item(1 << 21, 0, 1)])
        with self.assertRaisesRegex(ValueError, "3 items, but 0 places"):
            replan_heaps(heaps, items[:3], [])

    def test_a_capacity_below_the_bound_is_given_up_at_once(self):
        hard = [(lower, upper, size | 1, 1 << lower % 5) for lower, upper, size in generated(5_000, 3)]
        started = time.monotonic()
        with self.assertRaises(CapacityNotMet) as raised:
            plan(hard, capacity=1, time_limit=60)
        self.assertLess(time.monotonic() - started, 20)
        self.assertGreater(raised.exception.plan.lower_bound, 1)

    def test_a_capacity_that_is_not_met_is_an_error_with_the_plan(self):
        buffers = [(0, 2, 64), (1, 3, 64)]
        self.assertEqual(plan(buffers, capacity=128).height, 128)
        with self.assertRaises(CapacityNotMet) as raised:
            plan(buffers, capacity=100)
        self.assertIsInstance(raised.exception, ValueError)
        self.assertEqual(raised.exception.plan, plan(buffers))
        self.assertEqual(
            str(raised.exception),
            "the capacity of 100 is not met: the lowest plan found needs 128, no plan is lower than 128",
        )
        # The time was too short for a proof.
        hard = [(lower, upper, size | 1, 1 << lower % 5) for lower, upper, size in generated(5_000, 3)]
        bound = plan(hard, time_limit=0).lower_bound
        with self.assertRaisesRegex(CapacityNotMet, f"no plan is lower than {bound}, a plan within the capacity may exist"):
            plan(hard, capacity=bound, time_limit=0)

    def test_threads_search_side_by_side(self):
        buffers = [buffer + (1 << place % 4,) for place, buffer in enumerate(generated(40, 3))]
        alone, two, three = (plan(buffers, threads=threads, time_limit=600) for threads in (1, 2, 3))
        self.assertEqual((two, two.height), (three, alone.height))
        verify(buffers, two.offsets, two.height)

    def test_plans_are_compared_copied_and_pickled(self):
        rows = [(0, 2, 6), (1, 3, 4), (2, 4, 6)]
        items = [Item(size, lower, upper) for lower, upper, size in rows]
        heap_plan = plan_heaps([Heap(64)], items)
        again = replan_heaps([Heap(64)], items, heap_plan.offsets)
        for made, other in ((plan(rows), plan(rows[:2])), (heap_plan, again), (again, heap_plan)):
            self.assertNotEqual(made, other)
            self.assertNotEqual(made, 3)
            self.assertFalse(made == other.offsets)
            copies = [copy.copy(made), copy.deepcopy(made)]
            copies += [pickle.loads(pickle.dumps(made, at)) for at in range(2, pickle.HIGHEST_PROTOCOL + 1)]
            self.assertEqual([repr(held) for held in copies], [repr(made)] * len(copies))
            self.assertEqual((copies, len({made, *copies})), ([made] * len(copies), 1))
        self.assertEqual(again.has_kept_most, pickle.loads(pickle.dumps(again)).has_kept_most)

    def test_offsets_are_made_once(self):
        found = plan([(0, 2, 8), (1, 3, 8)])
        self.assertIs(found.offsets, found.offsets)
        heaps = plan_heaps([Heap(64)], [Item(8, 0, 2)])
        self.assertIs(heaps.offsets, heaps.offsets)
        self.assertIs(heaps.heights, heaps.heights)
        # The attributes cannot be changed.
        self.assertEqual((found.offsets, heaps.offsets, heaps.heights), (tuple(found.offsets), ((0, 0),), (8,)))

    def test_what_is_shown_says_what_it_is(self):
        heap, item = Heap(64, class_=2), Item(8, 0, 2, classes=[2, 0], pinned=(0, 16))
        for shown in (heap, item):
            self.assertEqual(repr(eval(repr(shown))), repr(shown))
        self.assertEqual(repr(item), "Item(8, 0, 2, alignment=1, kind=0, classes=[2, 0], pinned=(0, 16))")
        found = plan([(0, 2, 8), (1, 3, 8)])
        self.assertEqual(repr(found), "<Plan of 2 buffers: height=16, load=16, lower_bound=16, is_proven=True>")
        again = replan_heaps([Heap(64)], [Item(8, 0, 2)], [(0, 8)], time_limit=1)
        self.assertRegex(repr(again), r"<HeapPlan of 1 items: heights=\(16,\), .*is_proven=False, kept_count=1>")
        self.assertIs(again.has_kept_most, True)

    HEAP = {"capacity": 64, "class_": 2, "alignment": 256, "granularity": 16}
    ITEM = {"size": 8, "lower": 1, "upper": 2, "alignment": 4, "kind": 3, "classes": (2, 0), "pinned": (1, 16)}

    def test_heaps_and_items_have_what_they_were_given(self):
        for kind, given in ((Heap, self.HEAP), (Item, self.ITEM)):
            made = kind(**given)
            self.assertEqual({name: getattr(made, name) for name in given}, given)
            for name in given:
                with self.assertRaises(AttributeError):
                    setattr(made, name, given[name])
        self.assertEqual((Item(8, 0, 1).classes, Item(8, 0, 1).pinned), ((0,), None))

    def test_heaps_and_items_are_equal_if_all_of_them_is(self):
        for kind, given in ((Heap, self.HEAP), (Item, self.ITEM)):
            made = kind(**given)
            self.assertEqual(made, kind(**given))
            self.assertEqual(len({made, kind(**given)}), 1)
            self.assertFalse(made != kind(**given))
            self.assertNotEqual(made, tuple(given.values()))
            for name, value in given.items():
                other = value[::-1] if isinstance(value, tuple) else value + 1
                self.assertNotEqual(made, kind(**{**given, name: other}), name)

    def test_heaps_and_items_can_be_copied_and_pickled(self):
        for made in (Heap(64), Heap(**self.HEAP), Item(8, 0, 1), Item(**self.ITEM)):
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                self.assertEqual(pickle.loads(pickle.dumps(made, protocol)), made)
            self.assertEqual((copy.copy(made), copy.deepcopy(made)), (made, made))

    def test_what_is_not_a_buffer_is_named_by_its_place(self):
        with self.assertRaisesRegex(TypeError, r"buffer 2: expected \(lower, upper, size\) .*found \(0, 1\)"):
            plan([(0, 1, 8), (0, 1, 8), (0, 1)])
        with self.assertRaisesRegex(ValueError, "size of buffer 1: expected an integer from 0 to .*, found -8"):
            plan([(0, 1, 8), (0, 1, -8)])
        with self.assertRaisesRegex(TypeError, "offset 1: expected an integer from 0 to .*, found '8'"):
            verify([(0, 1, 8), (0, 1, 8)], [0, "8"], 16)
        with self.assertRaisesRegex(TypeError, "item 1: expected an Item, found 3"):
            plan_heaps([Heap(64)], [Item(8, 0, 1), 3])
        with self.assertRaisesRegex(TypeError, "place 0: expected None or .heap, offset."):
            replan_heaps([Heap(64)], [Item(8, 0, 1)], [8])

    def refused(self, error, message, call, *given, **named):
        with self.assertRaises(error) as raised:
            call(*given, **named)
        self.assertIs(type(raised.exception), error)
        self.assertEqual(str(raised.exception), message)

    def test_a_number_that_does_not_fit_names_its_argument(self):
        heap, item = {"capacity": 64}, {"size": 8, "lower": 0, "upper": 1}
        buffers = {"buffers": [(0, 1, 8)]}
        proven = {**buffers, "offsets": [0], "capacity": 8}
        calls = [
            (Heap, heap, {"capacity": 64, "class_": 32, "alignment": 64, "granularity": 64}),
            (Item, item, {"size": 64, "lower": 64, "upper": 64, "alignment": 64, "kind": 32}),
            (plan, buffers, {"alignment": 64, "capacity": 64, "threads": 16}),
            (verify, proven, {"alignment": 64, "capacity": 64}),
        ]
        for call, needed, numbers in calls:
            for name, bits in numbers.items():
                expected = f"{name}: expected an integer from 0 to 2**{bits} - 1, found "
                for value in (-1, 1 << bits):
                    self.refused(ValueError, f"{expected}{value}", call, **{**needed, name: value})
                for value in ("8", 8.0, [8]):
                    self.refused(TypeError, f"{expected}{value!r}", call, **{**needed, name: value})

    def test_no_thread_is_too_few(self):
        expected = "threads: expected an integer from 1 to 2**16 - 1, found 0"
        self.refused(ValueError, expected, plan, [(0, 1, 8)], threads=0)

    def test_a_number_in_a_sequence_is_named_by_its_place(self):
        integer = "expected an integer from 0 to 2**64 - 1, found"
        self.refused(ValueError, f"lower of buffer 1: {integer} -1", plan, [(0, 1, 8), (-1, 1, 8)])
        self.refused(TypeError, f"upper of buffer 0: {integer} 1.5", plan, [(0, 1.5, 8)])
        self.refused(TypeError, f"alignment of buffer 0: {integer} None", plan, [(0, 1, 8, None)])
        self.refused(ValueError, f"offset 0: {integer} -8", verify, [(0, 1, 8)], [-8], 8)
        heaps, items = [Heap(64)], [Item(8, 0, 1)]
        self.refused(ValueError, f"offset of place 0: {integer} -8", verify_heaps, heaps, items, [(0, -8)])
        self.refused(ValueError, f"heap of place 0: {integer} -1", replan_heaps, heaps, items, [(-1, 0)])
        self.refused(TypeError, f"offset of pinned: {integer} '0'", Item, 8, 0, 1, pinned=(0, "0"))
        element = "element 1 of classes: expected an integer from 0 to 2**32 - 1, found"
        self.refused(ValueError, f"{element} -1", Item, 8, 0, 1, classes=[0, -1])
        self.refused(TypeError, f"{element} None", Item, 8, 0, 1, classes=[0, None])
        # Python does not print an integer of 5000 digits.
        self.refused(ValueError, f"size of buffer 0: {integer} <class 'int'>", plan, [(0, 1, 10**5000)])

    def test_an_error_of_an_index_is_passed_on(self):
        class Stopped:
            def __index__(self):
                raise KeyboardInterrupt

        self.refused(KeyboardInterrupt, "", Heap, Stopped())

    def test_rows_are_tuples_lists_or_arrays(self):
        rows = [(0, 2, 6), (1, 3, 4), (2, 4, 6)]
        found = plan(rows)
        flat = array.array("Q", [number for row in rows for number in row])
        table = memoryview(flat).cast("B").cast("Q", shape=[len(rows), 3])
        arrays = [array.array("Q", row) for row in rows]
        for given in ([list(row) for row in rows], tuple(map(list, rows)), arrays, table):
            self.assertEqual(plan(given).offsets, found.offsets)
            verify(given, array.array("Q", found.offsets), found.height)
        heaps, items = [Heap(64)], [Item(size, lower, upper) for lower, upper, size in rows]
        places = [[0, offset] for offset in found.offsets]
        verify_heaps(heaps, items, places)
        self.assertEqual(replan_heaps(heaps, items, places).kept_count, 3)
        self.assertEqual(plan_heaps(heaps, [Item(8, 0, 1, pinned=[0, 16])]).offsets, ((0, 16),))

    @unittest.skipUnless(numpy, "needs NumPy")
    def test_rows_are_arrays_of_numpy(self):
        rows = [(0, 2, 6, 1), (1, 3, 4, 2), (2, 4, 6, 4)]
        found = plan(rows)
        for kind in ("i4", "i8", "u8"):
            table = numpy.array(rows, dtype=kind)
            self.assertEqual(plan(table).offsets, found.offsets)
            self.assertEqual(plan(list(table)).offsets, found.offsets)
            verify(table, numpy.array(found.offsets, dtype=kind), found.height)
        places = numpy.array([[0, offset] for offset in found.offsets])
        verify_heaps([Heap(64)], [Item(row[2], row[0], row[1]) for row in table], places)
        integer = "expected an integer from 0 to 2**64 - 1, found"
        self.refused(TypeError, f"lower of buffer 0: {integer} 0.0", plan, numpy.array(rows, dtype="f8"))
        self.refused(ValueError, f"size of buffer 0: {integer} -6", plan, -numpy.array([(0, -2, 6)]))
        with self.assertRaisesRegex(TypeError, "buffer 0: expected .lower, upper, size. or .*, found 0"):
            plan(numpy.array(rows[0]))
        self.refused(TypeError, "buffers: expected a sequence, found array(3)", plan, numpy.array(3))

    def test_what_has_no_order_is_no_sequence(self):
        for given in ({0, 2, 8}, {0: 1}, "(0, 2, 8)", 3, None):
            self.refused(TypeError, f"buffers: expected a sequence, found {given!r}", plan, given)
            self.refused(TypeError, f"offsets: expected a sequence, found {given!r}", verify, [(0, 1, 8)], given, 8)
            self.refused(TypeError, f"items: expected a sequence, found {given!r}", plan_heaps, [Heap(64)], given)
            with self.assertRaisesRegex(TypeError, "buffer 0: expected .lower, upper, size. or "):
                plan([given])
        # A transposed table: the error shows only the start of the row.
        with self.assertRaisesRegex(TypeError, r"buffer 0: expected .*, found \[0, 0, 0, .{1,100}\.\.\.$"):
            plan([[0] * 1000, [1] * 1000, [8] * 1000])

    def test_many_rows_are_read_fast(self):
        rows = [[at, at + 1, 8, 4] for at in range(100_000)]
        started = time.monotonic()
        verify(rows, [0] * len(rows), 8)
        self.assertLess(time.monotonic() - started, 2)

    def test_a_time_limit_is_named_too(self):
        heaps, items = [Heap(64)], [Item(8, 0, 1)]
        calls = [(plan, [(0, 1, 8)]), (plan_heaps, heaps, items), (replan_heaps, heaps, items, [None])]
        for call, *given in calls:
            expected = "time_limit: expected seconds, 0 or more, found "
            for value in (-1, float("nan")):
                self.refused(ValueError, expected + repr(value), call, *given, time_limit=value)
            self.refused(ValueError, f"{expected}1{'0' * 99}...", call, *given, time_limit=10**400)
            for value in ("1", None):
                self.refused(TypeError, expected + repr(value), call, *given, time_limit=value)
            call(*given, time_limit=float("inf"))

    def test_planning_again_heeds_its_limit(self):
        with self.assertRaisesRegex(ValueError, "seconds"):
            replan_heaps([Heap(64)], [Item(8, 0, 1)], [None], time_limit=-1)
        items = [Item(size, lower, upper) for lower, upper, size in generated(4_000, 3)]
        with self.assertRaisesRegex(ValueError, "stopped before there was a plan of the 4000 items"):
            replan_heaps([Heap(1 << 40)], items, [None] * len(items), time_limit=0)

    def test_the_stubs_name_what_the_module_has(self):
        folder = pathlib.Path(ringfence_alias.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        stubs = ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8"))
        named = {}
        for node in stubs.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                named[node.name] = node
            elif isinstance(node, ast.AnnAssign):
                named[node.target.id] = node
        self.assertEqual(set(named), set(ringfence_alias.__all__))
        for name, node in named.items():
            if isinstance(node, ast.ClassDef) and name != "CapacityNotMet":
                methods = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_")}
                public = {method for method in vars(getattr(ringfence_alias, name)) if not method.startswith("_")}
                self.assertEqual(methods, public, name)
            if isinstance(node, ast.FunctionDef):
                signature = "(" + getattr(ringfence_alias, name).__text_signature__.strip("()") + ")"
                given = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
                places = [signature.find(argument) for argument in given]
                self.assertTrue(-1 not in places and places == sorted(places), signature)

    def test_the_version_is_that_of_the_wheel(self):
        self.assertEqual(ringfence_alias.__version__, importlib.metadata.version("ringfence-alias"))

    def test_the_classes_name_their_module(self):
        for named in (Heap, Item, type(plan([(0, 1, 1)]))):
            self.assertEqual(named.__module__, "ringfence_alias")

    def test_other_threads_run_and_ctrl_c_is_heard(self):
        # If a shell starts this in the background, the signal is ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        buffers = generated(5_000, 3)
        ticks = []
        stop = threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.005)

        other = threading.Thread(target=tick)
        other.start()
        # This is hard to prove, so the signal should end it.
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        hard = [(lower, upper, size | 1, 1 << lower % 5) for lower, upper, size in buffers]
        timer.start()
        started = time.monotonic()
        try:
            found = plan(hard, time_limit=60)
            timer.join()  # It was proven first, so the signal arrives here.
            self.assertTrue(found.is_proven, "planning ends by the signal or by the proof")
        except KeyboardInterrupt:
            self.assertGreater(len([at for at in ticks if at > started]), 3)
        finally:
            timer.cancel()
            stop.set()
            other.join()


if __name__ == "__main__":
    unittest.main()
