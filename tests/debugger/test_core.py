"""The debuggers' commands without a debugger: views over bytes, statistics, .npy files, comparisons, the stage table.

Must turn red: strides of a slice wrong, bfloat16 rounded towards zero, statistics that count -inf as the minimum, a .npy
header that is not padded or has no comma after a single axis, a row of the stage table not read, colours where TERM=dumb.
"""
import array
import math
import os
import re
import struct
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, '..', '..', 'include', 'glassbox', 'debugger')
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True
import compare
import glass_commands
import heat_map
import npy
import stage_source
import tensor_view as tv
import tour
import value_views
import where


def view_of(values, names_and_sizes, element=tv.F32, typecode='f'):
    raw = b'\0' * 64 + array.array(typecode, values).tobytes()
    return tv.ArrayView.dense(lambda address, count: raw[address:address + count], 64, element, names_and_sizes, label='t')


class Views(unittest.TestCase):
    def test_slices(self):
        view = view_of(range(24), [('head', 2), ('query', 3), ('key', 4)])
        self.assertEqual(list(view.slice('1, 2').row([])), [20, 21, 22, 23])
        self.assertEqual(list(view.slice(':, 1, 3').row([])), [7, 19])
        self.assertEqual(list(view.slice('-1, -1, ::2').row([])), [20, 22])
        self.assertEqual(view.slice('0, 1:3').rows_text()[0][0], '[query=1]')
        self.assertEqual(view.slice('1, 1, 1').element_at([0]), 17)
        for text, message in (('2', '2 is not in 0..1 of axis head'), ('0, 0, 0, 0', '4 indices for the 3 axes'),
                              ('x', 'x in [x] is no index'), ('::-1', 'expected from:to')):
            with self.assertRaises(tv.Mistake) as raised:
                view.slice(text)
            self.assertIn(message, str(raised.exception))

    def test_impossible_shapes(self):
        for sizes in ([('a', -1)], [('a', 1 << 40), ('b', 1 << 40)]):
            with self.assertRaises(tv.Garbage):
                view_of([], sizes)
        with self.assertRaises(tv.Garbage):
            tv.ArrayView.dense(None, 0, tv.F32, [('a', 1)])

    def test_statistics(self):
        view = view_of([1, -math.inf, 3, math.nan, math.inf, -2], [('a', 6)])
        statistics, complete = view.statistics()
        self.assertTrue(complete)
        self.assertEqual((statistics.minimum, statistics.maximum, statistics.sum), (-2, 3, 2))
        self.assertEqual((statistics.nan, statistics.plus_inf, statistics.minus_inf), (1, 1, 1))
        self.assertEqual(view.summary(), 'f32[a=6] min=-2 max=3 mean=0.6667 nan=1 inf=2')
        self.assertEqual(view_of([math.nan], [('a', 1)]).summary(), 'f32[a=1] = nan')
        self.assertEqual(view_of([-math.inf] * 2, [('a', 2)]).summary(), 'f32[a=2] min=- max=- mean=- nan=0 inf=2')
        hundred = view_of(range(1, 101), [('row', 10), ('column', 10)], tv.F64, 'd')
        statistics, _ = hundred.statistics()
        self.assertEqual(statistics.sum, 5050)
        self.assertAlmostEqual(hundred.deviation(statistics), math.sqrt(833.25))

    def test_limit(self):
        view = view_of([0] * 50 + [9] * 50, [('row', 10), ('column', 10)])
        statistics, complete = view.statistics(limit=20)
        self.assertFalse(complete)
        self.assertEqual((statistics.count, statistics.minimum, statistics.maximum), (20, 0, 9))

    def test_stored_types(self):
        bits = [0x3F80, 0xBF00, 0x7F80, 0x0001]
        raw = struct.pack('<4H', *bits)
        self.assertEqual(list(tv.BF16.decode(raw)), [1.0, -0.5, math.inf, 2.0 ** -133])
        for value, expected in ((1.0, 0x3F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (-3.1415926, 0xC049)):
            self.assertEqual(struct.unpack('<H', tv.BF16.encode(value))[0], expected)
        self.assertEqual(list(tv.F16.decode(struct.pack('<3H', 0x3C00, 0x0001, 0xFC00))), [1.0, 2.0 ** -24, -math.inf])


class NumpyFiles(unittest.TestCase):
    def test_bytes_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'a.npy')
            npy.write(view_of([1, 2, 3, 4, 5, 6], [('row', 2), ('column', 3)]), path)
            with open(path, 'rb') as file:
                raw = file.read()
            self.assertEqual(raw[:8], b'\x93NUMPY\x01\x00')
            self.assertEqual((10 + struct.unpack('<H', raw[8:10])[0]) % 64, 0)
            self.assertIn(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", raw)
            self.assertEqual(struct.unpack('<6f', raw[-24:]), (1, 2, 3, 4, 5, 6))
            npy.write(view_of([1, 2, 3], [('a', 3)]), path)
            with open(path, 'rb') as file:
                self.assertIn(b"'shape': (3,), }", file.read())
            turned = view_of(range(6), [('row', 2), ('column', 3)])
            npy.write(turned.with_axes([turned.axes[1], turned.axes[0]]), path)
            again = npy.read(path)
            self.assertEqual((again.shape, compare.flat(again)), ([3, 2], [0, 3, 1, 4, 2, 5]))
            with open(path, 'wb') as file:
                file.write(npy.header('<f8', [2, 2]).replace(b"False", b"True ") + struct.pack('<4d', 1, 3, 2, 4))
            self.assertEqual(compare.flat(npy.read(path)), [1, 2, 3, 4])
            with open(path, 'wb') as file:
                file.write(npy.header('<f8', [2, 2]) + struct.pack('<3d', 1, 3, 2))
            with self.assertRaises(tv.Mistake):
                npy.read(path)
            with open(path, 'wb') as file:
                file.write(b'no such thing')
            with self.assertRaises(tv.Mistake):
                npy.read(path)

    def test_what_is_refused(self):
        fine = "{'descr': %s, 'fortran_order': False, 'shape': %s, }"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'a.npy')
            for text, message in ((fine % ("[('a', '<f4')]", '(2,)'), 'elements of type [('), (fine % ("'<f4'", '12'), 'shape 12'),
                                  (fine % ("'<f4'", "('a', 4)"), "shape ('a', 4)"), (fine % ("'<f4'", '(3.0, 4.0)'), 'shape (3.0, 4.0)'),
                                  (fine % ("'<f4'", '(-3, -4)'), 'shape (-3, -4)'), (fine % ("'>f4'", '(2,)'), 'type >f4'),
                                  ('-' * 30000, 'a header of 30000 bytes'), ('-' * 9000, 'the header is not'), ('(' * 9000, 'the header is not'),
                                  (fine % ("'<f4'", '(%s,)' % ('9' * 4000)), 'expected 3999'), (fine % ("'<f4'", '(%s,)' % ('9' * 4500)), 'is not'),
                                  (fine % ("'<f4'", '(0, %s)' % ('9' * 4000)), 'the shape (0, 99'), ('{1: 2}', 'the header is not')):
                with open(path, 'wb') as file:
                    file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode() + b'\0' * 8)
                with self.assertRaises(tv.Mistake) as raised:
                    npy.read(path)
                self.assertTrue(str(raised.exception).startswith(path + ': '), str(raised.exception)[:200])
                self.assertIn(message, str(raised.exception))
                self.assertLess(len(str(raised.exception)), 300 + len(path))
        if os.path.exists('/dev/zero'):
            with self.assertRaises(tv.Mistake):
                npy.read('/dev/zero')

    def test_every_type_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'a.npy')
            for descr, typecode in (('|i1', 'b'), ('<i1', 'b'), ('|u1', 'B'), ('<i2', 'h'), ('<u2', 'H'), ('<i4', 'i'), ('<u4', 'I'),
                                    ('<i8', 'q'), ('<u8', 'Q'), ('|b1', 'B'), ('<f4', 'f'), ('<f8', 'd')):
                with open(path, 'wb') as file:
                    file.write(npy.header(descr, [3]) + array.array(typecode, [1, 0, 1]).tobytes())
                view = npy.read(path)
                self.assertEqual(compare.flat(view), [1, 0, 1])
                npy.write(view, os.path.join(folder, 'b.npy'))
                self.assertIn('are equal', compare.compare(view, npy.read(os.path.join(folder, 'b.npy'))))
            nothing = tv.ArrayView(None, 0, tv.F32, [], 'nothing')
            with self.assertRaises(tv.Mistake):
                npy.write(nothing, path)
            self.assertIn('no numbers to compare', compare.compare(nothing, nothing))


class Comparisons(unittest.TestCase):
    VALUES = [0.5, -1.25, 3.0, 7.5, -2.125, 4.0, 8.0, 1.0, -6.0]

    def kind(self, a, b, sizes=(('row', 3), ('column', 3)), other=None):
        return compare.compare(view_of(a, list(sizes), tv.F64, 'd'), view_of(b, list(other or sizes), tv.F64, 'd'))

    def test_kinds(self):
        values = self.VALUES
        self.assertIn('are equal (9 elements)', self.kind(values, values))
        self.assertIn('agree within', self.kind(values, [x + 1e-9 for x in values]))
        self.assertIn('constant shift: the second is the first + 2', self.kind(values, [x + 2 for x in values]))
        self.assertIn('constant factor: the second is the first * 0.125', self.kind(values, [x / 8 for x in values]))
        turned = [values[3 * j + i] for i in range(3) for j in range(3)]
        self.assertIn('transposed', self.kind(values, turned))
        self.assertIn('permuted: the same numbers', self.kind(values, values[1:] + values[:1]))
        self.assertIn('permuted: shifted by one row', self.kind(values, values[3:] + values[:3]))
        rough = [1 + 0.001 * i for i in range(9)]
        halves = list(tv.F16.decode(struct.pack('<9e', *rough)))
        self.assertIn('half precision (f16)', self.kind(rough, halves))
        bf16 = list(tv.BF16.decode(b''.join(map(tv.BF16.encode, rough))))
        self.assertIn('bfloat16 precision', self.kind(rough, bf16))
        masked = values[:-1] + [-math.inf]
        self.assertIn('only one of them has infinities', self.kind(values, masked))
        text = self.kind(values, values[:4] + [99.0] + values[5:])
        self.assertIn('1 of 9 elements', text)
        self.assertIn('first    at [1, 1]: -2.125 and 99', text)
        self.assertEqual(len(text.split('\n')), 3)

    def test_shapes(self):
        self.assertIn('differ in shape', self.kind(self.VALUES[:6], self.VALUES[:6], (('a', 2), ('b', 3)), (('a', 3), ('b', 2))))
        self.assertIn('a view where a transpose was meant',
                      self.kind(self.VALUES[:6], self.VALUES[:6], (('a', 2), ('b', 3)), (('a', 3), ('b', 2))))
        self.assertIn('are equal', self.kind(self.VALUES[:6], self.VALUES[:6], (('x', 1), ('a', 2), ('b', 3)),
                                             (('a', 2), ('b', 3))))


class ManyNumbers(unittest.TestCase):
    """What holds for a few numbers holds for many, of any shape; and none of it takes long."""
    ROWS, COLUMNS = 700, 300  # several blocks of tensor_view.BLOCK

    def setUp(self):
        self.numbers = [(i * 7919) % 100003 / 64 for i in range(self.ROWS * self.COLUMNS)]

    def view(self, numbers=None, sizes=None):
        return view_of(numbers or self.numbers, sizes or [('row', self.ROWS), ('column', self.COLUMNS)])

    def test_order_of_packed_numbers(self):
        cube = self.view(self.numbers, [('a', 70), ('b', 10), ('c', 300)])
        turned = cube.with_axes([cube.axes[2], cube.axes[0], cube.axes[1]])
        for view in (cube, cube.slice(':, ::3, 1::7'), turned, turned.slice('5:, ::2, 3')):
            expected = [x for _, row in view.rows() for x in row]
            self.assertEqual(compare.flat(view), expected)
            self.assertEqual(view.statistics()[0].sum, sum(expected))
        last = cube.with_axes([cube.axes[2]._replace(stride=-4)], cube.address + 4 * 299)
        self.assertEqual(compare.flat(last), self.numbers[299::-1])
        far = cube.with_axes([tv.Axis('', 3, 4 * 60000), tv.Axis('', 1, 4)])
        self.assertEqual(compare.flat(far), self.numbers[0:180000:60000])

    def test_difference_in_the_last_element(self):
        other = self.numbers[:-1] + [-4.0]
        text = compare.compare(self.view(), self.view(other))
        self.assertIn('differ: 1 of 210000 elements', text)
        self.assertIn('first    at [699, 299]', text)
        self.assertEqual(len(text.split('\n')), 3)  # no kind is named

    def test_limit_is_told(self):
        shifted = self.view([x + 3 for x in self.numbers])
        tv.limits.set('diff', '20000')
        try:
            text = compare.compare(self.view(), shifted)
        finally:
            tv.limits.reset()
        self.assertRegex(text, r'differ: (\d+) of the first \1 elements .*; the other \d+ were not looked at')
        self.assertRegex(text, r'of the first \d+: constant shift: the second is the first \+ 3$')
        self.assertIn('\n  constant shift', compare.compare(self.view(), shifted))
        for limit, expected in (('100', ([], tv.BLOCK)), ('0', (['(699, 299)'], 210000))):
            tv.limits.set('statistics', limit)
            try:
                found = glass_commands.find_places(self.view(self.numbers[:-1] + [math.nan]), 'nan')
            finally:
                tv.limits.reset()
            self.assertEqual(found, expected)

    def test_not_finite(self):
        masked = [x if i % 3 else -math.inf for i, x in enumerate(self.numbers)]
        nan = masked[:-1] + [math.nan]
        self.assertIn('are equal', compare.compare(self.view(nan), self.view(nan)))
        text = compare.compare(self.view(masked), self.view(nan))
        self.assertIn('1 of 210000', text)
        self.assertIn('only one of them has infinities or NaN', text)
        infinite = [math.inf] + masked[1:]
        self.assertIn('their infinities or NaN are not the same', compare.compare(self.view(masked), self.view(infinite)))
        shifted = [x + 3 for x in masked]
        self.assertIn('constant shift', compare.compare(self.view(masked), self.view(shifted)))
        self.assertEqual(glass_commands.find_places(self.view(nan), 'nan')[0], ['(699, 299)'])
        self.assertEqual(glass_commands.find_places(self.view(masked), 'inf', most=2)[0], ['(0, 0)', '(0, 3)'])

    def test_constant_rows(self):
        view = view_of([1, 2, 3, 3, 4, 4, 5, 6], [('row', 4), ('column', 2)])
        self.assertEqual(glass_commands.find_places(view, 'constant')[0], ['(1, :)', '(2, :)'])
        self.assertEqual(glass_commands.find_places(view.slice('2:, :'), 'constant')[0], ['(2, :)'])
        self.assertEqual(glass_commands.find_places(view_of([7] * 50000, [('n', 50000)]), 'constant')[0], ['(:)'])
        self.assertEqual(glass_commands.find_places(view_of([7] * 49999 + [8], [('n', 50000)]), 'constant')[0], [])
        self.assertEqual(glass_commands.find_places(view_of([7] * 9, [('n', 9), ('one', 1)]), 'constant')[0], [])

    def test_deviation(self):
        for numbers, expected in (([1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3], 1.25 ** 0.5), ([1e200, 2e200, 3e200], (2 / 3) ** 0.5 * 1e200),
                                  ([1.7e308, 1.7e308, 1.7e308, -1.7e308], 3 ** 0.5 * 0.85e308), ([1, 3, math.nan], 1)):
            view = view_of(numbers, [('n', len(numbers))], tv.F64, 'd')
            statistics, _ = view.statistics()
            self.assertAlmostEqual(view.deviation(statistics) / expected, 1)
            finite = [x for x in numbers if math.isfinite(x)]
            self.assertAlmostEqual(statistics.mean / sum(x / len(finite) for x in finite), 1)
        self.assertEqual(tv.exact(view_of([1.7e308] * 3, [('n', 3)], tv.F64, 'd').statistics()[0].sum), '5.1e+308')

    def test_heat_map_beyond_a_double(self):
        text = heat_map.heat_map(view_of([-1.5e308, 1.7e308, 0, 1.4e308], [('a', 2), ('b', 2)], tv.F64, 'd'), False)
        self.assertIn('|  @@|', text)

    def test_seconds(self):
        """Ten million numbers; the bounds are of a slow machine, looking at each number alone takes ten times that."""
        raw = b'\0' * 64 + (array.array('f', self.numbers) * 48).tobytes()
        other = b'\0' * 64 + (array.array('f', [x + 1 for x in self.numbers]) * 48).tobytes()

        def view(sizes, raw=raw):
            return tv.ArrayView.dense(lambda address, count: raw[address:address + count], 64, tv.F32, sizes, label='t')
        count = len(raw) // 4 - 16
        column, square = view([('row', count), ('one', 1)]), view([('row', 48 * 70), ('column', 3000)])
        for what in (lambda: glass_commands.find_places(column, 'nan'), lambda: glass_commands.find_places(column, 'constant'),
                     lambda: glass_commands.find_places(square, 'constant'), lambda: column.slice('::2').summary(),
                     lambda: heat_map.heat_map(column, False), lambda: heat_map.heat_map(square, False),
                     lambda: square.with_axes(square.axes[::-1]).slice('::2').summary(),
                     lambda: compare.compare(square, view([('row', 48 * 70), ('column', 3000)], other))):
            start = time.process_time()
            what()
            self.assertLess(time.process_time() - start, 6)


class Texts(unittest.TestCase):
    def test_heat_map_of_many(self):
        text = heat_map.heat_map(view_of(range(100 * 200), [('row', 100), ('column', 200)]), False)
        rows = [line for line in text.split('\n') if '|' in line]
        self.assertEqual((len(rows), len(rows[0].split('|')[1])), (heat_map.HEIGHT, heat_map.WIDTH))
        self.assertIn('the largest of its block', text)
        self.assertIn('\x1b[48;2;', heat_map.heat_map(view_of([1, 2], [('a', 2)]), True))

    def test_words(self):
        self.assertEqual(glass_commands.split_words('diff a[0, 1] "b c" --tolerance 1'),
                         ['diff', 'a[0, 1]', 'b c', '--tolerance', '1'])
        self.assertEqual(glass_commands.take_options(['x', '--layer', '3', '--seq=5'], {'layer': True, 'seq': True}),
                         ({'layer': '3', 'seq': '5'}, ['x']))
        self.assertEqual(tv.split_slice('a->b[2].c[0, x[1]]'), ('a->b[2].c', '0, x[1]'))
        self.assertEqual(where.function_name('long glassbox::f<int (*)(long)>(int) const'), 'glassbox::f<int (*)(long)>')
        self.assertEqual(value_views.template_arguments('Eigen::Map<Eigen::Matrix<float, 1, -1>, 0>'),
                         ['Eigen::Matrix<float, 1, -1>', '0'])

    def test_every_command_has_a_function_and_help(self):
        for name, (usage, text) in glass_commands.COMMANDS.items():
            self.assertTrue(callable(getattr(glass_commands.Glass, 'do_' + name)))
            self.assertTrue(usage.startswith('glass ' + name) and text.endswith('.'), name)
            self.assertIn('\n  %-10s ' % name, glass_commands.HELP)


class Stages(unittest.TestCase):
    def test_table_is_read_whole(self):
        source = stage_source.StageSource()
        path = os.path.join(source.folder, 'stage_table.hpp')
        with open(path, encoding='utf-8') as file:
            names = re.findall(r'^\s*\.name = "(\w+)"', file.read(), re.M)
        self.assertGreater(len(names), 40)
        self.assertEqual([row.name for row in source.rows], names)
        for row in source.rows:
            for field in ('group', 'axes', 'source', 'module', 'formula', 'why'):
                self.assertTrue(getattr(row, field), '%s has no %s' % (row.name, field))

    def test_every_line_has_a_row(self):
        source = stage_source.StageSource()
        self.assertEqual([line.stage for line in source.lines if source.row(line.stage) is None], [])
        self.assertEqual(source.passed_names()[0], 'input_ids')
        self.assertLess(source.passed_names().index('scores'), source.passed_names().index('attn_weights'))

    def test_function_end(self):
        path = os.path.join(stage_source.HEADERS, 'attention.hpp')
        lines = stage_source.lines_of_file(path)
        start = next(i for i, text in enumerate(lines, 1) if 'Tensor<Scalar> scaled_scores(' in text)
        end = stage_source.function_end(path, start)
        self.assertEqual(lines[end - 1], '}')
        self.assertIn('return scores;', lines[end - 2])


class Colours(unittest.TestCase):
    class Debugger:
        def __init__(self):
            self.printed = ''

        def print(self, text):
            self.printed += text

        def colour(self):
            return True

    def test_none_in_a_dumb_terminal(self):
        terminal = os.environ.get('TERM')
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, 'a.npy')
                npy.write(view_of([1, 2], [('a', 2)]), path)
                for name, coloured in (('dumb', False), ('xterm', True)):
                    os.environ['TERM'] = name
                    debugger = self.Debugger()
                    glass_commands.Glass(debugger).run('heat ' + path)
                    self.assertEqual('\x1b' in debugger.printed, coloured)
        finally:
            os.environ.pop('TERM')
            if terminal is not None:
                os.environ['TERM'] = terminal


class OtherFiles(unittest.TestCase):
    def test_tour_names_stages_and_commands(self):
        passed = stage_source.StageSource().passed_names()
        stops = tour.read_stops()
        self.assertGreaterEqual(len(stops), 4)
        order = [passed.index(stop.stage) for stop in stops]
        self.assertEqual(order, sorted(order))
        for stop in stops:
            self.assertTrue(stop.look and stop.question and stop.answer and stop.commands)
            self.assertTrue(all(stop.chinese.values()))
            for command in stop.commands:
                self.assertIn(command.split()[0], glass_commands.COMMANDS)

    def test_natvis_is_xml_and_names_members_that_exist(self):
        tree = xml.etree.ElementTree.parse(os.path.join(SCRIPTS, 'glassbox.natvis'))
        types = [node.get('Name') for node in tree.getroot()]
        self.assertIn('glassbox::Tensor<*>', types)
        text = ''.join(tree.getroot().itertext())
        with open(os.path.join(SCRIPTS, '..', 'tensor.hpp'), encoding='utf-8') as file:
            header = file.read()
        for member in set(re.findall(r'\b[a-z_]+_\b', text)):
            self.assertRegex(header, r'\b%s\b' % member)


if __name__ == '__main__':
    unittest.main()
