"""An array of numbers in the memory of another program: its shape, its statistics, its text.

There is no debugger in here. All that is asked of one is `read(address, count) -> bytes`; the tests hand in a
slice of a bytes object. No numpy either: a debugger's Python often has none.

    view = ArrayView(read, address, ELEMENTS['float'], [Axis('query', 5, 20), Axis('key', 5, 4)])
    view.summary()      'f32[query=5, key=5] min=-3.1 max=2.21 mean=0.01 nan=0 inf=0'
    view.slice('1, :')  the second row
"""
import array
import math
import operator
import struct
from collections import namedtuple


class Garbage(Exception):
    """What lies there is no tensor: not constructed yet, freed, overwritten. The text says why one thinks so."""


class Mistake(Exception):
    """What was asked for makes no sense; the text says what would."""


# ---- what is shown, and how much of it; `glass limits` shows and sets these ----
class Limits:
    DEFAULTS = {'rows': 6, 'columns': 8, 'statistics': 1 << 24, 'weights': 1 << 16, 'dump': 1 << 28}
    MEANINGS = {
        'rows': 'rows of a tensor below its summary',
        'columns': 'numbers in such a row',
        'statistics': 'elements a summary reads; of a larger tensor it reads rows spread evenly, and says so',
        'weights': 'the same for stored weights, of which a model has many',
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
        if not value.isdigit():
            raise Mistake('%s=%s: expected a whole number, 0 for no limit' % (name, value))
        setattr(self, name, int(value) or 1 << 62)


limits = Limits()


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
BY_SHORT_NAME = {element.short: element for element in (F32, F64, F16, BF16, I32, I64, U8, BOOL)}


def number(value):
    """A number as the printers show it: four digits that count."""
    if isinstance(value, int):
        return str(value)
    return '%.4g' % value


def exact(value):
    """A number for comparing with other programs: eight digits."""
    if isinstance(value, int):
        return str(value)
    return '%.8g' % value


# ---- statistics ----
class Statistics:
    """Over the finite numbers, summed in double: minimum, maximum, sum; the others counted by kind."""

    def __init__(self):
        self.count = self.finite = self.nan = self.plus_inf = self.minus_inf = 0
        self.minimum = self.maximum = None
        self.sum = self.sum_of_squares = 0

    def add(self, values, squares=False):
        """`values`: an array. min(), max() and sum() run at the speed of C; only an array that holds something
        not finite is filtered first."""
        self.count += len(values)
        total = sum(values)
        if not math.isfinite(total):
            plus, minus = values.count(math.inf), values.count(-math.inf)
            finite = list(filter(math.isfinite, values))
            self.plus_inf += plus
            self.minus_inf += minus
            self.nan += len(values) - len(finite) - plus - minus
            values, total = finite, sum(finite)
        if not len(values):
            return
        self.finite += len(values)
        low, high = min(values), max(values)
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        self.sum += total
        if squares:
            self.sum_of_squares += sum(map(operator.mul, values, values))

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
CHUNK = 1 << 20    # elements read at a time


class ArrayView:
    """Numbers at `address` and `axes` from the slowest to the fastest. Raises Garbage for impossible sizes."""

    def __init__(self, read, address, element, axes, label='', limit='statistics'):
        self.read, self.address, self.element, self.label, self.limit = read, address, element, label, limit
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
        return ArrayView(self.read, self.address if address is None else address, self.element, axes,
                         self.label if label is None else label, self.limit)

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
        if not self.size:
            return self
        low, length = self.span()
        if length > 4 * self.size * self.element.bytes + 4096:
            return self
        copy = bytes(self.read(low, length))
        def read(address, count):
            return copy[address - low:address - low + count]
        return ArrayView(read, self.address, self.element, self.axes, self.label, self.limit)

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

    def chunks(self):
        """Arrays that hold every element once, in memory order where that is faster."""
        if not self.size:
            return
        size = self.element.bytes
        if self.is_gapless():
            low, length = self.span()
            for offset in range(0, length, CHUNK * size):
                yield self.element.decode(bytes(self.read(low + offset, min(CHUNK * size, length - offset))))
            return
        inner = len(self.axes)  # the trailing axes that lie without gaps are read at once
        stride = size
        while inner > 0 and (self.axes[inner - 1].stride == stride or self.axes[inner - 1].size == 1):
            inner -= 1
            stride *= self.axes[inner].size
        outer = self.with_axes(self.axes[:inner] + [Axis('', stride // size, size)])
        for row in range(outer.row_count()):
            yield outer.row(outer.row_index(row))

    def statistics(self, limit=None, squares=False):
        """(statistics, whether over all elements): of more than `limit` only rows spread evenly are read."""
        result = Statistics()
        if limit is None or self.size <= limit:
            for chunk in self.chunks():
                result.add(chunk, squares)
            return result, True
        rows, columns = self.row_count(), self.shape[-1]
        taken = min(rows, max(1, limit // columns))
        for k in range(taken):
            result.add(self.row(self.row_index(k * rows // taken), limit), squares)
        return result, False

    # -- text --
    def summary(self):
        """'f32[batch=1, head=8, query=5, key=5] min=-3.1 max=2.21 mean=0.01 nan=0 inf=0'"""
        head = self.type_text()
        if not self.axes:
            return head + ' empty'
        if self.size == 0:
            return head + ' no elements'
        if self.size == 1:
            return '%s = %s' % (head, self.number_text(self.element_at([0] * len(self.axes))))
        statistics, complete = self.statistics(getattr(limits, self.limit))
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
                numbers = [int(word) if word.strip() else None for word in part.split(':')]
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
