"""An array of numbers in the memory of another program: its shape, its statistics, its text.

There is no debugger in here. All that is asked of one is `read(address, count) -> bytes`; the tests hand in a
slice of a bytes object. No numpy either: a debugger's Python often has none.

    view = ArrayView(read, address, ELEMENTS['float'], [Axis('query', 5, 20), Axis('key', 5, 4)])
    view.summary()      'f32[query=5, key=5] min=-3.1 max=2.21 mean=0.01 nan=0 inf=0'
    view.slice('1, :')  the second row
"""
import array
import math
import re
import struct
from collections import namedtuple


class Garbage(Exception):
    """What lies there is no tensor: not constructed yet, freed, overwritten. The text says why one thinks so."""


class Mistake(Exception):
    """What was asked for makes no sense; the text says what would."""


# ---- what is shown, and how much of it; `glass limits` shows and sets these ----
class Limits:
    DEFAULTS = {'rows': 6, 'columns': 8, 'statistics': 1 << 24, 'weights': 1 << 16, 'diff': 1 << 22, 'dump': 1 << 28}
    MEANINGS = {
        'rows': 'rows of a tensor below its summary',
        'columns': 'numbers in such a row',
        'statistics': 'elements that summaries, stats, find and heat look at; of a larger tensor a part, and they say so',
        'diff': 'elements that `glass diff` looks at one by one, where the two are not the same bytes',
        'weights': 'elements that the summary of a stored weight looks at: a model has many of these',
        'dump': 'bytes that `glass dump` writes at most',
    }

    def __init__(self):
        self.reset()

    def reset(self):
        for name, value in self.DEFAULTS.items():
            setattr(self, name, value)

    def set(self, name, value):
        if name not in self.DEFAULTS:
            raise Mistake('no limit is called %s; there are: %s' % (name, ', '.join(self.DEFAULTS)))
        if not re.fullmatch('[0-9]{1,18}', value):
            raise Mistake('%s=%s: expected a whole number, 0 for no limit' % (name, value))
        setattr(self, name, int(value) or 1 << 62)


limits = Limits()


def integer(text):
    """A whole number as C++ writes it. ValueError for what Python alone takes for one: 1_0, digits of other scripts."""
    if not re.fullmatch('[-+]?[0-9]{1,30}', text.strip()):
        raise ValueError(text)
    return int(text)


# ---- element types ----
def _by_typecode(typecode):
    def decode(raw):
        return array.array(typecode, raw)
    return decode


def _decode_half(raw):
    return array.array('d', struct.unpack('<%de' % (len(raw) // 2), raw))


def _decode_bfloat16(raw):
    """The upper half of a float: put each pair of bytes above two zero bytes."""
    wide = bytearray(2 * len(raw))
    wide[2::4] = raw[0::2]
    wide[3::4] = raw[1::2]
    return array.array('f', bytes(wide))


def _encode_bfloat16(value):
    """The nearest one, ties to even, as hardware rounds."""
    bits = struct.unpack('<I', struct.pack('<f', value))[0]
    if value == value:
        bits += 0x7FFF + ((bits >> 16) & 1)
    return struct.pack('<H', (bits >> 16) & 0xFFFF)


# short: as dtype_name() in axis.hpp prints it; npy: the type in a .npy file, which knows no bfloat16
Element = namedtuple('Element', 'short bytes npy floating decode encode')


def _plain(short, size, npy, typecode):
    def encode(value):
        return struct.pack('<' + typecode, value)
    return Element(short, size, npy, typecode in 'fd', _by_typecode(typecode), encode)


F32 = _plain('f32', 4, '<f4', 'f')
F64 = _plain('f64', 8, '<f8', 'd')
I8 = _plain('i8', 1, '|i1', 'b')
U8 = _plain('u8', 1, '|u1', 'B')
I16 = _plain('i16', 2, '<i2', 'h')
U16 = _plain('u16', 2, '<u2', 'H')
I32 = _plain('i32', 4, '<i4', 'i')
U32 = _plain('u32', 4, '<u4', 'I')
I64 = _plain('i64', 8, '<i8', 'q')
U64 = _plain('u64', 8, '<u8', 'Q')
BOOL = Element('bool', 1, '|b1', False, _by_typecode('B'), lambda value: struct.pack('<B', 1 if value else 0))
F16 = Element('f16', 2, '<f2', True, _decode_half, lambda value: struct.pack('<e', value))
BF16 = Element('bf16', 2, None, True, _decode_bfloat16, _encode_bfloat16)

ELEMENTS = {
    'float': F32, 'double': F64, 'bool': BOOL, 'char': I8, 'signed char': I8, 'unsigned char': U8,
    'short': I16, 'unsigned short': U16, 'int': I32, 'unsigned int': U32, 'long': I64, 'unsigned long': U64,
    'long long': I64, 'unsigned long long': U64, 'glassbox::Half': F16, 'glassbox::BFloat16': BF16,
    'Eigen::half': F16, 'Eigen::bfloat16': BF16,
}
UNSIGNED = {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}  # typecodes that move bytes without looking at them


def parsed(text, element):
    """(value, bytes) of a number that was typed for an element. Raises Mistake where it is none or does not fit; infinity
    and nan must be asked for by name."""
    named = re.fullmatch('[-+]?(inf|nan)', text)
    try:
        if element.short == 'bool':
            value = {'true': 1, 'false': 0, '1': 1, '0': 0}[text]
        elif not element.floating:
            value = integer(text)
        elif named or re.fullmatch(r'[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?', text):
            value = float(text)
        else:
            raise ValueError(text)
    except (ValueError, LookupError):
        raise Mistake('%s is no %s%s' % (text, element.short, ': true or false' if element.short == 'bool' else '')) from None
    try:
        data = element.encode(value)
    except (OverflowError, struct.error):
        data = None
    if data is None or element.floating and not named and not math.isfinite(element.decode(data)[0]):
        raise Mistake('%s does not fit %s' % (text, element.short))
    return value, data


def number(value):
    """A number as the printers show it: four digits that count."""
    if isinstance(value, int):
        return str(value)
    return '%.4g' % value


def exact(value):
    """A number for comparing with other programs: eight digits. A sum beyond what a double holds is a whole number."""
    if isinstance(value, int):
        if abs(value) < 1 << 200:
            return str(value)
        power = len(str(abs(value))) - 1
        return '%.8ge+%d' % (value / 10 ** power, power)
    return '%.8g' % value


# ---- statistics ----
def _sum(values):
    """A whole number where the sum of doubles is more than a double holds."""
    total = sum(values)
    return total if math.isfinite(total) else int(sum(map((2.0 ** -128).__mul__, values))) << 128


def _plus(a, b):
    try:
        total = a + b
        if total - total == 0:
            return total
    except OverflowError:
        pass
    return int(a) + int(b)


class Statistics:
    """Over the finite numbers, summed in double: minimum, maximum, sum; the others counted by kind."""

    def __init__(self):
        self.count = self.finite = self.nan = self.plus_inf = self.minus_inf = 0
        self.minimum = self.maximum = None
        self.sum = 0

    def add(self, values):
        """`values`: an array of some thousand numbers (the lists made of more would not stay in a processor's cache).
        min(), max() and sum() run at the speed of C; only an array that holds something not finite is filtered first."""
        self.count += len(values)
        total = sum(values)
        if total - total != 0:
            finite = list(filter(math.isfinite, values))
            if len(finite) < len(values):
                plus, minus = values.count(math.inf), values.count(-math.inf)
                self.plus_inf += plus
                self.minus_inf += minus
                self.nan += len(values) - len(finite) - plus - minus
            values, total = finite, _sum(finite)
        if not len(values):
            return
        self.finite += len(values)
        low, high = min(values), max(values)
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        self.sum = _plus(self.sum, total)

    @property
    def inf(self):
        return self.plus_inf + self.minus_inf

    @property
    def mean(self):
        return self.sum / self.finite if self.finite else math.nan

    def text(self, element):
        if element.short == 'bool':
            return 'true=%d false=%d' % (self.sum, self.count - self.sum)
        if self.minimum is None:
            text = 'min=- max=- mean=-'
        else:
            text = 'min=%s max=%s mean=%s' % (number(self.minimum), number(self.maximum), number(self.mean))
        if element.floating:
            text += ' nan=%d inf=%d' % (self.nan, self.inf)
        return text


# ---- the array ----
class Axis(namedtuple('Axis', 'name size stride first step whole', defaults=(0, 1, 0))):
    """One axis; `stride` is in bytes, `name` may be empty. Of a slice `first` and `step` tell the indices in the
    whole tensor, for its labels, and `whole` the size there (0: no slice)."""
    def __str__(self):
        return '%s=%d' % (self.name, self.size) if self.name else str(self.size)


LARGEST = 1 << 46  # bytes: more than any machine has, so sizes that multiply to it were never set
BLOCK = 1 << 14    # elements looked at at once: lists of them stay in a processor's cache
SPAN = 1 << 26     # bytes of memory read at once, where elements lie far apart
BANDS = 1024       # places in a tensor that is looked at in part


class ArrayView:
    """Numbers at `address` and `axes` from the slowest to the fastest. Raises Garbage for impossible sizes."""

    def __init__(self, read, address, element, axes, label='', limit='statistics'):
        self.read, self.address, self.element, self.label, self.limit = read, address, element, label, limit
        self.is_copy = False  # whether `read` costs nothing
        self.axes = list(axes)
        total = 1
        for axis in self.axes:
            if axis.size < 0:
                raise Garbage('not a tensor: axis %s' % str(axis))
            total *= axis.size
        self.size = total if self.axes else 0
        if self.size * element.bytes > LARGEST:
            raise Garbage('not a tensor: [%s] is more than any memory holds' % self.shape_text())
        if self.size and not address:
            raise Garbage('not a tensor: [%s] without memory (moved from or never made?)' % self.shape_text())

    @staticmethod
    def dense(read, address, element, names_and_sizes, **more):
        """Row-major without gaps."""
        axes, stride = [], element.bytes
        for name, size in reversed(names_and_sizes):
            axes.insert(0, Axis(name, size, stride))
            stride *= max(size, 0)
        return ArrayView(read, address, element, axes, **more)

    @property
    def shape(self):
        return [axis.size for axis in self.axes]

    def with_axes(self, axes, address=None, label=None):
        view = ArrayView(self.read, self.address if address is None else address, self.element, axes,
                         self.label if label is None else label, self.limit)
        view.is_copy = self.is_copy
        return view

    def shape_text(self):
        return ', '.join(str(axis) for axis in self.axes)

    def type_text(self):
        return '%s[%s]' % (self.element.short, self.shape_text())

    def span(self):
        """(lowest address, bytes) of the memory all elements lie in."""
        low = self.address + sum(min(0, (a.size - 1) * a.stride) for a in self.axes)
        high = self.address + sum(max(0, (a.size - 1) * a.stride) for a in self.axes) + self.element.bytes
        return low, high - low

    def is_gapless(self):
        """Whether the elements, in whatever order, fill their memory."""
        return self.size > 0 and self.span()[1] == self.size * self.element.bytes and self.element.bytes > 0

    def is_row_major(self):
        stride = self.element.bytes
        for axis in reversed(self.axes):
            if axis.size != 1 and axis.stride != stride:
                return False
            stride *= axis.size
        return True

    def check_readable(self):
        """Raises Garbage where the memory is not there (freed, or the pointer was never set)."""
        if not self.size:
            return
        low, length = self.span()
        self.read(low, self.element.bytes)
        self.read(low + length - self.element.bytes, self.element.bytes)

    def loaded(self):
        """The same view of a copy, read at once; for what looks at elements in another order than memory's."""
        if not self.size or self.is_copy:
            return self
        low, length = self.span()
        if length > 4 * self.size * self.element.bytes + 4096:
            return self
        copy = memoryview(self.read(low, length)).cast('B')

        def read(address, count):
            return copy[address - low:address - low + count]
        view = ArrayView(read, self.address, self.element, self.axes, self.label, self.limit)
        view.is_copy = True
        return view

    # -- blocks: many elements at once, at the speed of C --
    def merged(self):
        """(size, stride) of the axes; one of a single element is left out, neighbours without a gap are one."""
        axes = []
        for axis in self.axes:
            if axis.size == 1:
                continue
            if axes and axes[-1][1] == axis.size * axis.stride:
                axes[-1] = (axes[-1][0] * axis.size, axis.stride)
            else:
                axes.append((axis.size, axis.stride))
        return axes or [(1, self.element.bytes)]

    def packed(self):
        """The bytes of all elements, row after row."""
        if not self.size:
            return b''
        size, axes = self.element.bytes, self.merged()
        if len(axes) == 1 and axes[0][1] == size:
            return bytes(self.read(self.address, self.size * size))
        low, length = self.span()
        if length > 64 * self.size * size or any(not stride or stride % size for _, stride in axes):
            return self._packed_by_runs(axes)
        source = memoryview(self.read(low, length)).cast('B').cast(UNSIGNED[size])
        result = bytearray(self.size * size)
        target = memoryview(result).cast(UNSIGNED[size])
        places, step, longest = [((self.address - low) // size, 0)], self.size, max(axes)
        for axis in axes:  # one copy for each index of all axes but the longest
            count, stride = axis[0], axis[1] // size
            step //= count
            if axis == longest:
                along, target_step, longest = stride, step, None
                most = count
                continue
            places = [(s + k * stride, t + k * step) for s, t in places for k in range(count)]
        for s, t in places:
            end = s + (most - 1) * along + (1 if along > 0 else -1)
            target[t:t + (most - 1) * target_step + 1:target_step] = source[s:end if end >= 0 else None:along]
        return bytes(result)

    def _packed_by_runs(self, axes):
        """Where elements lie far apart: the bytes between are not read."""
        run = self.element.bytes
        if axes[-1][1] == run:
            run *= axes.pop()[0]
        places = [self.address]
        for count, stride in axes:
            places = [place + k * stride for place in places for k in range(count)]
        return b''.join(bytes(self.read(place, run)) for place in places)

    def blocks(self, most=BLOCK):
        """Views of at most `most` elements that follow one another, row after row."""
        if not self.size:
            return
        axes = self.merged()
        strides = [abs(stride) for _, stride in axes]
        view = self.loaded() if strides != sorted(strides, reverse=True) else self
        yield from view.with_axes([Axis('', *axis) for axis in axes]).parts(most)

    def parts(self, most):
        if self.size <= most and (self.is_copy or self.span()[1] <= SPAN):
            yield self
            return
        first, rest = self.axes[0], self.axes[1:]
        inside = self.size // first.size
        at_once = most // inside
        if not self.is_copy:
            at_once = min(at_once, SPAN // (abs(first.stride) or 1))
        if at_once < 2 and rest:
            for i in range(first.size):
                yield from self.with_axes(rest, self.address + i * first.stride).parts(most)
            return
        at_once = max(1, at_once)
        for i in range(0, first.size, at_once):
            axes = [first._replace(size=min(at_once, first.size - i))] + rest
            yield self.with_axes(axes, self.address + i * first.stride)

    # -- rows: the last axis is a row, all the others are counted as one --
    def row_count(self):
        count = 1
        for axis in self.axes[:-1]:
            count *= axis.size
        return count if self.axes else 0

    def row_index(self, row):
        """The indices of row `row` along all axes but the last."""
        index = []
        for axis in reversed(self.axes[:-1]):
            index.insert(0, row % axis.size)
            row //= axis.size
        return index

    def row_address(self, index):
        return self.address + sum(i * axis.stride for i, axis in zip(index, self.axes))

    def row(self, index, count=None):
        """The numbers of one row, the first `count` of them."""
        axis, size = self.axes[-1], self.element.bytes
        count = axis.size if count is None else min(count, axis.size)
        start = self.row_address(index)
        if count == 0:
            return array.array('d')
        if axis.stride == size:
            return self.element.decode(bytes(self.read(start, count * size)))
        if 0 < axis.stride <= 64 * size and axis.stride % size == 0:
            whole = self.element.decode(bytes(self.read(start, (count - 1) * axis.stride + size)))
            return whole[::axis.stride // size]
        raw = b''.join(bytes(self.read(start + i * axis.stride, size)) for i in range(count))
        return self.element.decode(raw)

    def rows(self):
        for row in range(self.row_count() if self.size else 0):
            index = self.row_index(row)
            yield index, self.row(index)

    def row_label(self, index):
        """'[head=2, query=0]'; axes of one element say nothing and are left out."""
        pairs = [(axis, i) for axis, i in zip(self.axes, index) if axis.size != 1]
        pairs = pairs or [(self.axes[len(index) - 1], index[-1])]
        numbers = [(axis.name, axis.first + i * axis.step) for axis, i in pairs]
        return '[%s]' % ', '.join('%s=%d' % pair if pair[0] else str(pair[1]) for pair in numbers)

    def element_at(self, index):
        return self.element.decode(bytes(self.read(self.row_address(index), self.element.bytes)))[0]

    def arrays_in_order(self):
        for block in self.blocks():
            yield self.element.decode(block.packed())

    def arrays(self):
        """Arrays of numbers that hold every element once, in memory's order where that is faster."""
        view = self.with_axes(sorted(self.axes, key=lambda axis: -abs(axis.stride)))
        if self.is_gapless():
            view = self.with_axes([Axis('', self.size, self.element.bytes)], self.span()[0])
        for block in view.blocks():
            yield self.element.decode(block.packed())

    def evenly(self, limit):
        """Parts of this view that together have about `limit` elements: rows spread evenly over all."""
        rows, last = self.row_count(), self.axes[-1]
        taken = min(rows, max(1, limit // last.size))
        columns = last._replace(size=min(last.size, limit))
        if taken <= BANDS:
            for k in range(taken):
                yield self.with_axes([columns], self.row_address(self.row_index(k * rows // taken)))
            return
        outer = self.with_axes([Axis('', *axis) for axis in self.with_axes(self.axes[:-1]).merged()] + [last])
        for k in range(BANDS):
            index = outer.row_index(k * rows // BANDS)
            band = outer.axes[-2]._replace(size=min(taken // BANDS, outer.shape[-2] - index[-1]))
            yield self.with_axes([band, columns], outer.row_address(index))

    def arrays_within(self, limit):
        if limit is None or self.size <= limit:
            yield from self.arrays()
            return
        for part in self.evenly(limit):
            for block in part.blocks():
                yield self.element.decode(block.packed())

    def statistics(self, limit=None):
        """(statistics, whether over all elements): of more than `limit` only rows spread evenly are read."""
        result = Statistics()
        for values in self.arrays_within(limit):
            result.add(values)
        return result, result.count == self.size

    def deviation(self, statistics, limit=None):
        """The standard deviation of the finite numbers, of which `statistics` tells the mean. The squares are of
        differences from it, scaled by dist(): neither large numbers nor a large mean lose digits."""
        scale = 2.0 ** -64 if max(-statistics.minimum, statistics.maximum) > 1e300 else 1
        mean, distance = statistics.mean * scale, 0.0
        for values in self.arrays_within(limit):
            if statistics.finite < statistics.count:
                values = list(filter(math.isfinite, values))
            values = tuple(values) if scale == 1 else tuple(map(scale.__mul__, values))
            distance = math.hypot(distance, math.dist(values, (mean,) * len(values)))
        return distance / math.sqrt(statistics.finite) / scale

    # -- text --
    def summary(self, limit=None):
        """'f32[batch=1, head=8, query=5, key=5] min=-3.1 max=2.21 mean=0.01 nan=0 inf=0'"""
        head = self.type_text()
        if not self.axes:
            return head + ' empty'
        if self.size == 0:
            return head + ' no elements'
        if self.size == 1:
            return '%s = %s' % (head, self.number_text(self.element_at([0] * len(self.axes))))
        statistics, complete = self.statistics(limit or getattr(limits, self.limit))
        text = '%s %s' % (head, statistics.text(self.element))
        if not complete:
            text += ' (of %d of %d elements)' % (statistics.count, self.size)
        return text

    def number_text(self, value):
        if self.element.short == 'bool':
            return 'true' if value == 1 else 'false' if value == 0 else 'true(%d)' % value
        return number(value)

    def row_text(self, index):
        """The first numbers of a row, in columns."""
        shown = min(self.shape[-1], limits.columns)
        width = 5 if self.element.short == 'bool' else 10
        words = [self.number_text(value).rjust(width) for value in self.row(index, shown)]
        rest = self.shape[-1] - shown
        return ' '.join(words) + (' ... %d more' % rest if rest else '')

    def rows_text(self):
        """The (label, text) of the first rows, and of what is left out."""
        if not self.size:
            return []
        shown = min(self.row_count(), limits.rows)
        lines = []
        for row in range(shown):
            index = self.row_index(row)
            lines.append((self.row_label(index) if len(self.axes) > 1 else '[:]', self.row_text(index)))
        if self.row_count() > shown:
            rest = self.row_count() - shown
            lines.append(('[...]', '%d more row%s' % (rest, '' if rest == 1 else 's')))
        return lines

    # -- slices --
    def slice(self, text):
        """'3', '3, :' or ':, 0:16': a number takes one index and drops its axis, from:to keeps a part, with the
        names of what remains. Counting begins at 0, negative numbers count from the end."""
        parts = [part.strip() for part in text.split(',')] if text.strip() else []
        if len(parts) > len(self.axes):
            raise Mistake('%d indices for the %d axes of [%s]' % (len(parts), len(self.axes), self.shape_text()))
        parts += [':'] * (len(self.axes) - len(parts))
        address, axes = self.address, []
        for part, axis in zip(parts, self.axes):
            try:
                numbers = [integer(word) if word.strip() else None for word in part.split(':')]
            except ValueError:
                raise Mistake('%s in [%s] is no index' % (part, text)) from None
            if len(numbers) == 1:
                index = numbers[0]
                if index is None or index < -axis.size or index >= axis.size:
                    raise Mistake('%s is not in 0..%d of axis %s' % (part, axis.size - 1, axis.name or 'one'))
                address += (index % axis.size) * axis.stride
                continue
            if len(numbers) > 3 or (len(numbers) == 3 and (numbers[2] or 1) < 1):
                raise Mistake('%s in [%s]: expected from:to or from:to:step' % (part, text))
            start, stop, step = slice(*numbers).indices(axis.size)
            address += start * axis.stride
            axes.append(Axis(axis.name, max(0, -(-(stop - start) // step)), axis.stride * step,
                             axis.first + start * axis.step, axis.step * step, axis.whole or axis.size))
        label = '%s[%s]' % (self.label, text)
        return self.with_axes(axes or [Axis('', 1, self.element.bytes)], address, label)


def split_slice(text):
    """'scores[3, 0:4]' -> ('scores', '3, 0:4'); without brackets at the end -> (text, None)."""
    text = text.strip()
    if not text.endswith(']'):
        return text, None
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += {']': 1, '[': -1}.get(text[i], 0)
        if depth == 0:
            return text[:i].strip(), text[i + 1:-1]
    return text, None
