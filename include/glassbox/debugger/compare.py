"""Two tensors side by side: are they equal, where do they part, and what mistake looks like that."""
import math
import operator
from itertools import islice

from tensor_view import exact

HALF_PRECISION = {'half precision (f16)': 2.0 ** -11, 'bfloat16 precision': 2.0 ** -8}
LOOKED_AT = 1 << 21  # elements compared when looking for a kind of difference


def flat(view, limit=None):
    values = []
    for _, row in view.rows():
        values.extend(row)
        if limit and len(values) >= limit:
            break
    return values


def compact(shape):
    return [size for size in shape if size != 1] or [1]


def compare(a, b, tolerance=1e-5):
    """Text: a verdict, the largest and the first difference, and what kind of difference it is."""
    a, b = a.loaded(), b.loaded()
    names = '%s and %s' % (a.label or 'a', b.label or 'b')
    if compact(a.shape) != compact(b.shape):
        return '\n'.join(['%s differ in shape: %s and %s' % (names, a.type_text(), b.type_text())]
                         + [hint for hint in [_shape_hint(a, b)] if hint])
    result = _walk(a, b, tolerance)
    if result['differing'] == 0:
        word = 'are equal' if result['largest'] == 0 else \
            'agree within %.2g: largest difference %.1g' % (tolerance, result['largest'])
        return '%s %s (%d elements)' % (names, word, a.size)
    lines = ['%s differ: %d of %d elements by more than %g' % (names, result['differing'], a.size, tolerance)]
    for word, (index, x, y) in (('first', result['first']), ('largest', result['worst'])):
        lines.append('  %-8s at [%s]: %s and %s' % (word, ', '.join(map(str, index)), exact(x), exact(y)))
    kind = kind_of_difference(a, b)
    if kind:
        lines.append('  ' + kind)
    return '\n'.join(lines)


def _walk(a, b, tolerance):
    """Counts differences beyond tolerance * max(1, |x|, |y|); two NaN in one place count as equal."""
    result = {'differing': 0, 'largest': 0.0, 'first': None, 'worst': None}
    columns, position = a.shape[-1], 0
    b_values = _stream(b)
    for index, row in a.rows():
        other = list(islice(b_values, columns))
        row = list(row)
        position += columns
        if row == other:
            continue
        for column, (x, y) in enumerate(zip(row, other)):
            if x == y or (x != x and y != y):
                continue
            difference = abs(x - y)
            difference = math.inf if difference != difference else difference
            if result['worst'] is None or difference > result['largest']:
                result['largest'], result['worst'] = difference, (index + [column], x, y)
            allowed = tolerance * max(1.0, abs(x), abs(y)) if math.isfinite(x) and math.isfinite(y) else 0
            if difference > allowed:
                result['differing'] += 1
                result['first'] = result['first'] or (index + [column], x, y)
    return result


def _stream(view):
    for _, row in view.rows():
        yield from row


def _close(xs, ys, tolerance=1e-5):
    return all(x == y or abs(x - y) <= tolerance * max(1.0, abs(x), abs(y)) < math.inf for x, y in zip(xs, ys))


def _shape_hint(a, b):
    if sorted(compact(a.shape)) != sorted(compact(b.shape)):
        return None
    order = transposition(a, b)
    if order:
        return '  transposed: the axes of the second in the order (%s) of the first' % ', '.join(map(str, order))
    if a.size == b.size and _close(flat(a, LOOKED_AT), flat(b, LOOKED_AT)):
        return '  the same numbers in the same order, viewed as another shape (a view where a transpose was meant?)'
    return None


def _orders(count):
    if count > 4:
        return
    import itertools
    for order in itertools.permutations(range(count)):
        if order != tuple(range(count)):
            yield order


def transposition(a, b):
    """The order of a's axes that gives b, if there is one."""
    if a.size > LOOKED_AT:
        return None
    wanted = flat(b)
    axes = [axis for axis in a.axes if axis.size != 1]
    for order in _orders(len(axes)):
        turned = a.with_axes([axes[i] for i in order])
        if turned.shape == compact(b.shape) and _close(flat(turned), wanted):
            return order
    return None


def kind_of_difference(a, b):
    """A sentence for what the difference looks like; '' for none of the known kinds."""
    xs, ys = flat(a, LOOKED_AT), flat(b, LOOKED_AT)
    finite = [(x, y) for x, y in zip(xs, ys) if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        return ''
    if _close(*zip(*finite)):
        return 'where both are finite they agree: only one of them has infinities or NaN'
    differences = [y - x for x, y in finite]
    shift = differences[0]
    if abs(shift) > 1e-6 and all(abs(d - shift) <= 1e-4 * max(1.0, abs(shift)) for d in differences):
        return 'constant shift: the second is the first + %s' % exact(shift)
    largest = max(finite, key=lambda pair: abs(pair[0]))
    if largest[0] and _close([x * largest[1] / largest[0] for x, _ in finite], [y for _, y in finite], 1e-4):
        return 'constant factor: the second is the first * %s' % exact(largest[1] / largest[0])
    order = transposition(a, b)
    if order:
        return 'transposed: the axes of the second in the order (%s) of the first' % ', '.join(map(str, order))
    if len(xs) == a.size and _close(sorted(map(_sortable, xs)), sorted(map(_sortable, ys))):
        moved = _shifted(a, xs, ys)
        return moved or 'permuted: the same numbers in another order'
    for name, precision in sorted(HALF_PRECISION.items(), key=operator.itemgetter(1)):
        if all(abs(x - y) <= 1.01 * precision * max(abs(x), abs(y), 2.0 ** -14) for x, y in finite):
            return 'noise of %s: rounded where the other was not' % name
    return ''


def _sortable(x):
    return x if x == x else -math.inf


def _shifted(a, xs, ys):
    columns = a.shape[-1]
    if columns and _close(xs, ys[columns:] + ys[:columns]):
        return 'permuted: shifted by one row'
    if columns and _close(xs, ys[-columns:] + ys[:-columns]):
        return 'permuted: shifted by one row'
    return None
