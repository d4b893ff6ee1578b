"""Two tensors side by side: are they equal, where do they part, and what mistake looks like that.

Of ten million numbers none is looked at alone where that can be helped: blocks of the same bytes are passed over, blocks
of numbers go through map(), sum() and max(). What is said holds for all elements, or the text tells for how many.
"""
import itertools
import math
import operator

from tensor_view import BLOCK, Mistake, Statistics, exact, limits

HALF_PRECISION = {'half precision (f16)': 2.0 ** -11, 'bfloat16 precision': 2.0 ** -8}
SORTED = 1 << 20  # elements that are sorted to find a permutation
GLANCE = 512      # elements that refute most guesses


def flat(view):
    return [x for values in view.arrays_in_order() for x in values]


def compact(shape):
    return [size for size in shape if size != 1] or [1]


def compare(a, b, tolerance=1e-5):
    """Text: a verdict, the largest and the first difference, and what kind of difference it is."""
    if not 0 <= tolerance < math.inf:
        raise Mistake('a tolerance of %g makes no sense: 0 or more, as 1e-5' % tolerance)
    if max(a.size, b.size) <= limits.statistics:
        a, b = a.loaded(), b.loaded()
    names = '%s and %s' % (a.label or 'a', b.label or 'b')
    if compact(a.shape) != compact(b.shape) or a.size != b.size:
        return '\n'.join(['%s differ in shape: %s and %s' % (names, a.type_text(), b.type_text())]
                         + [hint for hint in [_shape_hint(a, b)] if hint])
    if not a.size:
        return '%s have no numbers to compare: %s and %s' % (names, a.type_text(), b.type_text())
    found = _walk(a, b, tolerance)
    complete = found.looked == a.size
    more = '' if complete else '; the other %d were not looked at: `glass limits diff=0` looks at all' \
        % (a.size - found.looked)
    if not found.differing:
        word = 'are equal' if found.largest == 0 else \
            'agree within %.2g: largest difference %.1g' % (tolerance, found.largest)
        return '%s %s (%s%d elements%s)' % (names, word, '' if complete else 'the first ', found.looked, more)
    lines = ['%s differ: %d of %s%d elements by more than %g%s' % (
        names, found.differing, '' if complete else 'the first ', found.looked, tolerance, more)]
    for word, (place, x, y) in (('first', found.first), ('largest', found.worst)):
        index = ', '.join(map(str, _index(a, place)))
        lines.append('  %-8s at [%s]: %s and %s' % (word, index, exact(x), exact(y)))
    kind = kind_of_difference(a, b, found)
    if kind:
        lines.append('  ' + kind)
    return '\n'.join(lines)


def _index(view, place):
    index = view.row_index(place // view.shape[-1])
    return index + [place % view.shape[-1]]


# ---- block by block ----
def _pieces(view, most=BLOCK):
    for block in view.blocks(most):
        yield block.packed()


def _pairs(a, b, xs=None, ys=None):
    """The bytes of both, row after row, of the same elements."""
    xs, ys, left = xs or _pieces(a), ys or _pieces(b), b''
    for piece in xs:
        wanted = len(piece) // a.element.bytes * b.element.bytes
        while len(left) < wanted:
            left += next(ys)
        yield piece, left[:wanted]
        left = left[wanted:]


class Found:
    """Differences of more than tolerance * max(1, |x|, |y|). What is not finite differs from all but its like."""

    def __init__(self, tolerance):
        self.tolerance = tolerance
        self.looked = self.differing = self.not_finite = self.neither_finite = 0
        self.largest, self.worst, self.first = 0, None, None

    def add(self, xs, ys):
        differences = list(map(operator.sub, xs, ys))
        total = sum(differences)
        finite = total - total == 0
        if not finite:
            differences = self._add_not_finite(xs, ys, differences)
        low, high = min(differences), max(differences)
        largest = max(-low, high)
        if largest > self.largest:
            place = min(differences.index(d) for d in (low, high) if abs(d) == largest)
            self.largest, self.worst = largest, (self.looked + place, xs[place], ys[place])
        if largest > self.tolerance:
            reach = list(xs if finite else filter(math.isfinite, xs)) or [0]
            self._count(xs, ys, differences, max(max(reach), -min(reach)) + largest)
        self.looked += len(xs)

    def _count(self, xs, ys, differences, reach):
        """`reach`: no finite number is larger."""
        low, high = -self.tolerance, self.tolerance
        beyond = [i for i, d in enumerate(differences) if not low <= d <= high]
        if min(map(abs, map(differences.__getitem__, beyond))) <= high * max(1.0, reach):
            beyond = [i for i in beyond if abs(differences[i]) == math.inf
                      or abs(differences[i]) > high * max(1.0, abs(xs[i]), abs(ys[i]))]
        self.differing += len(beyond)
        if beyond and not self.first:
            self.first = (self.looked + beyond[0], xs[beyond[0]], ys[beyond[0]])

    def _add_not_finite(self, xs, ys, differences):
        """The differences, 0 where both are the same infinity or NaN, and infinite where they are not."""
        places = [i for i, d in enumerate(differences) if d - d != 0 and xs[i] != ys[i]]
        differences = [d if d - d == 0 else 0.0 for d in differences]
        for i in places:
            finite = math.isfinite(xs[i]) + math.isfinite(ys[i])
            if finite or xs[i] == xs[i] or ys[i] == ys[i]:
                differences[i] = math.inf
                self.not_finite += finite < 2
                self.neither_finite += finite == 0
        return differences


def _walk(a, b, tolerance):
    found, spent = Found(tolerance), 0
    for x, y in _pairs(a, b):
        if x == y and a.element is b.element:
            found.looked += len(x) // a.element.bytes
            continue
        if spent >= limits.diff:
            break
        xs = a.element.decode(x)
        found.add(xs, b.element.decode(y))
        spent += len(xs)
    return found


def _close(xs, ys, tolerance=1e-5):
    for count in (GLANCE, len(xs)):
        differences = list(map(operator.sub, xs[:count], ys[:count]))
        total = sum(differences)
        if total - total == 0 and max(-min(differences), max(differences)) <= tolerance:
            continue
        if not all(x == y or abs(x - y) <= tolerance * max(1.0, abs(x), abs(y)) < math.inf or (x != x and y != y)
                   for x, y in zip(xs[:count], ys[:count])):
            return False
    return True


def _same(a, b, xs=None, ys=None):
    """Whether the numbers are the same, read row after row, or in the order of the pieces `xs` and `ys`."""
    return all((x == y and a.element is b.element) or _close(a.element.decode(x), b.element.decode(y))
               for x, y in _pairs(a, b, xs, ys))


# ---- what it looks like ----
def _shape_hint(a, b):
    if sorted(compact(a.shape)) != sorted(compact(b.shape)) or a.size != b.size or not a.size:
        return None
    order = transposition(a, b)
    if order:
        return '  transposed: the axes of the second in the order (%s) of the first' % ', '.join(map(str, order))
    if a.size <= limits.statistics and _same(a, b):
        return '  the same numbers in the same order, viewed as another shape (a view where a transpose was meant?)'
    return None


def _orders(count):
    for order in itertools.permutations(range(count)) if count <= 4 else []:
        if order != tuple(range(count)):
            yield order


def transposition(a, b):
    """The order of a's axes that gives b, if there is one."""
    if a.size > limits.statistics:
        return None
    axes = [axis for axis in a.axes if axis.size != 1]
    for order in _orders(len(axes)):
        turned = a.with_axes([axes[i] for i in order])
        if turned.shape == compact(b.shape):
            first = _pairs(turned, b, _pieces(turned, GLANCE))
            if _close(*[view.element.decode(raw) for view, raw in zip((turned, b), next(first))]) and _same(turned, b):
                return order
    return None


def kind_of_difference(a, b, found):
    """A sentence for what the difference looks like, among the elements looked at; '' for none of the known kinds."""
    part = '' if found.looked == a.size else 'of the first %d: ' % found.looked
    if found.differing == found.not_finite:
        return part + 'where both are finite they agree: ' + (
            'their infinities or NaN are not the same' if found.neither_finite
            else 'only one of them has infinities or NaN')
    guesses = _guesses(found)
    surviving = _surviving(a, b, found, [test for _, test in guesses])
    kinds = [text for text, test in guesses if test in surviving]
    if kinds and not kinds[0].startswith('noise'):
        return part + kinds[0]
    order = transposition(a, b)
    if order:
        return 'transposed: the axes of the second in the order (%s) of the first' % ', '.join(map(str, order))
    return _permuted(a, b) or (part + kinds[0] if kinds else '')


def _guesses(found):
    """(text, test of lists of finite numbers) of what one can tell block by block, the likeliest first."""
    guesses, finite = [], [(x, y) for _, x, y in (found.worst, found.first) if math.isfinite(x) and math.isfinite(y)]
    if finite:
        x, y = finite[0]
        shift = y - x
        if abs(shift) > 1e-6:
            allowed = 1e-4 * max(1.0, abs(shift))
            guesses.append(('constant shift: the second is the first + %s' % exact(shift),
                            lambda xs, ys: _within(map(operator.sub, ys, xs), shift - allowed, shift + allowed)))
        if x:
            factor = y / x
            guesses.append(('constant factor: the second is the first * %s' % exact(factor),
                            lambda xs, ys: _close([x * factor for x in xs], ys, 1e-4)))
    for name, precision in sorted(HALF_PRECISION.items(), key=operator.itemgetter(1)):
        guesses.append(('noise of %s: rounded where the other was not' % name,
                        lambda xs, ys, precision=precision: _rounded(xs, ys, 1.01 * precision)))
    return guesses


def _surviving(a, b, found, tests):
    left = found.looked
    for _, x, y in (found.first, found.worst):
        if math.isfinite(x) and math.isfinite(y):
            tests = [test for test in tests if test([x], [y])]
    for x, y in _pairs(a, b):
        if left <= 0 or not tests:
            break
        xs, ys = a.element.decode(x), b.element.decode(y)
        left -= len(xs)
        total = sum(xs) + sum(ys)
        if total - total != 0:
            finite = [d - d == 0 for d in map(operator.sub, xs, ys)]
            xs, ys = (list(itertools.compress(numbers, finite)) for numbers in (xs, ys))
            if not xs:
                continue
        tests = [test for test in tests if test(xs[:GLANCE], ys[:GLANCE]) and test(xs, ys)]
    return tests


def _within(numbers, low, high):
    numbers = list(numbers)
    return low <= min(numbers) and max(numbers) <= high


def _rounded(xs, ys, precision):
    """Whether each pair differs by no more than a rounding of the larger."""
    square = precision * precision
    doubtful = [(x, y) for x, y in zip(xs, ys) if not (x - y) * (x - y) <= square * x * x < 1e300]
    return all(abs(x - y) <= precision * max(abs(x), abs(y), 2.0 ** -14) for x, y in doubtful)


def _permuted(a, b):
    if a.size > limits.statistics:
        return ''
    columns = a.shape[-1]
    if columns < a.size and (_same(a, b, None, _rotated(b, columns)) or _same(a, b, _rotated(a, columns))):
        return 'permuted: shifted by one row'
    if a.size <= SORTED and _same_statistics(a, b):
        xs, ys = (sorted(x for x in flat(view) if x == x) for view in (a, b))
        if xs and _close(xs, ys):
            return 'permuted: the same numbers in another order'
    return ''


def _rotated(view, count):
    """The bytes of the elements from number `count` on, then the first ones."""
    first, wanted = b'', count * view.element.bytes
    for piece in _pieces(view):
        missing = wanted - len(first)
        first += piece[:missing]
        if piece[missing:]:
            yield piece[missing:]
    yield first


def _same_statistics(a, b):
    one, other = Statistics(), Statistics()
    for view, statistics in ((a, one), (b, other)):
        for values in view.arrays():
            statistics.add(values)
    counts = [(s.nan, s.plus_inf, s.minus_inf) for s in (one, other)]
    return counts[0] == counts[1] and one.minimum is not None and \
        _close([one.minimum, one.maximum], [other.minimum, other.maximum])
