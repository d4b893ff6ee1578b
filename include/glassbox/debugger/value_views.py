"""From a variable of the stopped program to an ArrayView: glassbox's tensors and weights, Eigen's matrices.

Written once for gdb and lldb, against what both can say of a value without running the program:

    value.type_name()    'glassbox::Tensor<float>': without const, reference and typedef
    value.field(name)    a member, those of base classes included; None if there is none
    value.index(i)       an element of an array member, or of a std::array
    value.integer()      its number (of a pointer: the address)
    value.address()      where it lies
    value.target()       what a pointer points to
    value.field_behind(name)   a member of that, also where it is of a class with virtual functions
    value.read           read(address, count) -> bytes; raises Garbage where there is no memory
"""
import re

from tensor_view import ELEMENTS, BF16, F16, F32, F64, ArrayView, Axis, Garbage

MAX_RANK = 4          # tensor.hpp: Tensor has room for that many axes
MAX_NESTING = 6       # a view of a view of ...: deeper ones are cycles made by garbage
STORED_TYPES = [F32, F64, F16, BF16]  # weight.hpp: enum class StoredType, in its order

TENSOR = re.compile(r'^glassbox::Tensor<.*>$')
WEIGHT = re.compile(r'^glassbox::WeightMatrix$')
RECORD = re.compile(r'^glassbox::StageRecord$')
SCALAR = re.compile(r'^(glassbox::(Half|BFloat16)|Eigen::(half|bfloat16))$')
EIGEN_STORED = re.compile(r'^Eigen::(Matrix|Array|Map|Ref|Block|VectorBlock|Transpose)<.*>$')
EIGEN_LAZY = re.compile(r'^Eigen::(Cwise\w+|Product|Replicate|PartialReduxExpr|Select|Diagonal|Inverse|Solve|Reverse'
                        r'|VectorwiseOp|MatrixWrapper|ArrayWrapper|DiagonalWrapper|TriangularView|SelfAdjointView)<.*>$')


def is_shown(type_name):
    """Whether the printers have something to say of a type."""
    return any(kind.match(type_name) for kind in (TENSOR, WEIGHT, RECORD, SCALAR, EIGEN_STORED, EIGEN_LAZY))


def has_view(type_name):
    return any(kind.match(type_name) for kind in (TENSOR, WEIGHT, EIGEN_STORED))


def template_arguments(type_name):
    """'Eigen::Matrix<float, -1, -1, 1>' -> ['float', '-1', '-1', '1']"""
    inside = type_name[type_name.index('<') + 1:type_name.rindex('>')]
    arguments, depth, current = [], 0, ''
    for letter in inside:
        depth += {'<': 1, '>': -1}.get(letter, 0)
        if letter == ',' and depth == 0:
            arguments.append(current.strip())
            current = ''
        else:
            current += letter
    return arguments + [current.strip()]


def element_of(type_name):
    name = re.sub(r'\b(const|volatile)\b', '', type_name).strip()
    if name not in ELEMENTS:
        raise Garbage('elements of type %s are not known to the printers' % name)
    return ELEMENTS[name]


def view_of(value, label=''):
    """The numbers that a variable holds or refers to. Raises Garbage where it holds none, saying why."""
    name = value.type_name()
    if TENSOR.match(name):
        return _tensor(value, name, label)
    if WEIGHT.match(name):
        return _weight(value, label)
    if RECORD.match(name):
        return _record(value)
    if EIGEN_STORED.match(name):
        return _as_vector(_eigen(value, name, label, MAX_NESTING), name)
    if EIGEN_LAZY.match(name):
        raise Garbage(lazy_text(name))
    raise Garbage('%s is neither a tensor nor an Eigen matrix' % name)


def lazy_text(name):
    kind = re.match(r'Eigen::(\w+)', name).group(1)
    return 'lazy Eigen expression %s: not computed yet, assign it to a Matrix to see numbers' % kind


# ---- glassbox ----
def _axis(value):
    """(name, size) of a glassbox::Axis; its name lies inside the object."""
    raw = bytes(value.read(value.field('name').address(), 24))
    name = raw.split(b'\0')[0]
    if b'\0' not in raw or not all(32 < letter < 127 for letter in name):
        raise Garbage('not a tensor: the name of an axis is no text (not constructed yet?)')
    return name.decode('ascii'), value.field('size').integer()


def _tensor(value, type_name, label):
    rank = value.field('rank_').integer()
    if not 0 <= rank <= MAX_RANK:
        raise Garbage('not a tensor: %d axes (not constructed yet?)' % rank)
    element = element_of(template_arguments(type_name)[0])
    names_and_sizes = [_axis(value.field('axes_').index(i)) for i in range(rank)]
    view = ArrayView.dense(value.read, value.field('data_').integer(), element, names_and_sizes, label=label)
    reserved = value.field('reserved_rows_').integer()
    if rank >= 2:
        view = _with_reserved_rows(view, reserved)
    view.check_readable()
    return view


def _with_reserved_rows(view, reserved):
    """append_rows() leaves room after each matrix, so that matrices are reserved * columns elements apart."""
    rows, columns = view.shape[-2:]
    if reserved < rows or reserved > (1 << 40):
        raise Garbage('not a tensor: room for %d rows of %d (not constructed yet?)' % (reserved, rows))
    axes, stride = view.axes[-2:], reserved * columns * view.element.bytes
    for axis in reversed(view.axes[:-2]):
        axes.insert(0, Axis(axis.name, axis.size, stride))
        stride *= axis.size
    return view.with_axes(axes)


def _weight(value, label):
    stored = value.field('type').integer()
    if not 0 <= stored < len(STORED_TYPES):
        raise Garbage('not a weight: stored type %d (not constructed yet?)' % stored)
    element = STORED_TYPES[stored]
    axes = [_axis(value.field('out')), _axis(value.field('in'))]
    begin, end = _vector_ends(value.field('owned'))
    address = begin if end > begin else value.field('borrowed').integer()
    if not address:
        return ArrayView(value.read, 0, element, [], label, 'weights')
    view = ArrayView.dense(value.read, address, element, axes, label=label, limit='weights')
    if end > begin and end - begin != view.size * element.bytes:
        raise Garbage('not a weight: [%s] of %s in %d bytes' % (view.shape_text(), element.short, end - begin))
    view.check_readable()
    return view


def _vector_ends(vector):
    """Begin and end of a std::vector's memory (libstdc++, then libc++)."""
    inside = vector.field('_M_impl')
    if inside is not None:
        return inside.field('_M_start').integer(), inside.field('_M_finish').integer()
    return vector.field('__begin_').integer(), vector.field('__end_').integer()


def vector_elements(vector, size):
    """Addresses of the elements of a std::vector, `size` bytes each."""
    begin, end = _vector_ends(vector)
    if begin > end or (end - begin) % size or end - begin > LARGEST_LIST * size:
        raise Garbage('not a std::vector: it begins at 0x%x and ends at 0x%x (not constructed yet?)' % (begin, end))
    return range(begin, end, size)


def vector_begin(vector):
    """The pointer to the first element of a std::vector."""
    inside = vector.field('_M_impl')
    return inside.field('_M_start') if inside is not None else vector.field('__begin_')


def elements_of(vector):
    """Addresses of the elements of a std::vector. Raises Garbage where they cannot be that."""
    found = vector_elements(vector, vector_begin(vector).target().byte_size() or 1)
    if found:
        vector.read(found[0], 1)
        vector.read(found[-1], 1)
    return found


def vector_element(vector, i):
    """Element i of a std::vector, a std::array or an array; None where this is none of them. Garbage where it has no such
    element: what a debugger reads there belongs to something else."""
    array = re.match(r'^std::(?:__1::)?array<.*, (\d+)(?:UL|ul)?>$', vector.type_name())
    if array:
        return _array_element(vector, int(array.group(1)), i, 'std::array')
    plain = re.match(r'^[^()]*?\[(\d+)\]', vector.type_name())
    if plain:
        return _array_element(vector, int(plain.group(1)), i, 'array')
    if not vector.type_name().startswith(('std::vector<', 'std::__cxx1998::vector<', 'std::__1::vector<')):
        return None
    begin = vector_begin(vector)
    size = begin.target().byte_size()
    count = len(vector_elements(vector, size))
    if not 0 <= i < count:
        raise Garbage('no element [%d]: the std::vector has %d' % (i, count))
    return begin.index(i)


def _array_element(elements, count, i, kind):
    if not 0 <= i < count:
        raise Garbage('no element [%d]: the %s has %d' % (i, kind, count))
    return elements.index(i)


def behind(pointer):
    """What a pointer, a std::unique_ptr or a std::shared_ptr points to; None where this is none of them."""
    name = pointer.type_name()
    if name.startswith('std::shared_ptr<'):
        pointer = pointer.field('_M_ptr') or pointer.field('__ptr_')
    elif name.startswith('std::unique_ptr<'):
        for member in ('_M_t', '_M_t', '_M_head_impl'):
            pointer = pointer.field(member) if pointer is not None else None
    if pointer is None or not pointer.is_pointer():
        return None
    if not pointer.integer():
        raise Garbage('a null pointer')
    return pointer.target()


LARGEST_LIST = 1 << 20


def plain_pointer(value):
    """The pointer inside a std::atomic<T*> (libstdc++, then libc++); a pointer as it is."""
    for outer, inner in (('_M_b', '_M_p'), ('__a_', '__a_value')):
        holder = value.field(outer) if not value.is_pointer() else None
        pointer = holder.field(inner) if holder is not None else None
        if pointer is not None:
            return pointer
    return value


def read_string(read, address):
    """A std::string of libstdc++: pointer, length, bytes."""
    begin = int.from_bytes(bytes(read(address, 8)), 'little')
    length = int.from_bytes(bytes(read(address + 8, 8)), 'little')
    if length > LARGEST_LIST:
        raise Garbage('not a std::string')
    return bytes(read(begin, length)).decode('utf-8', 'replace') if length else ''


def read_c_string(read, address, limit=200):
    """A zero-terminated text; '' where there is none."""
    text = b''
    while address and len(text) < limit:
        try:
            letter = bytes(read(address + len(text), 1))
        except Garbage:
            raise Garbage('not a text') from None
        if letter == b'\0':
            return text.decode('utf-8', 'replace')
        text += letter
    return text.decode('utf-8', 'replace')


RECORD_TENSORS = ('f32', 'f64', 'i64', 'boolean')


def record_words(value):
    """(stage, layer, step, file, line) of a glassbox::StageRecord."""
    def text(name):
        return read_c_string(value.read, value.field(name).integer())
    words = (text('name'), value.field('layer').integer(), value.field('step').integer(), text('file'),
             value.field('line').integer())
    if not re.match(r'^\w*$', words[0]):
        raise Garbage('not a stage record: its name is no text (not constructed yet?)')
    return words


def record_text(value):
    name, layer, step, file, line = record_words(value)
    where = '%s%s, step %d' % (name, '' if layer < 0 else ', layer %d' % layer, step)
    return 'stage %s, %s:%d' % (where, file.split('/')[-1], line)


def _record(value):
    set_ones = [value.field(name) for name in RECORD_TENSORS if value.field(name).integer()]
    if len(set_ones) != 1:
        raise Garbage('a stage record with %d tensors instead of one' % len(set_ones))
    return view_of(set_ones[0].target(), record_words(value)[0])


# ---- Eigen ----
def _size(value, name, default):
    """A size that may be known at compile time: then it stands in the member's type, and there is no number."""
    member = value.field(name)
    if member is None:
        return default
    dynamic = member.field('m_value')
    if dynamic is not None:
        return dynamic.integer()
    fixed = re.match(r'^Eigen::internal::variable_if_dynamic(?:index)?<.*, (-?\d+)>$', member.type_name())
    return int(fixed.group(1)) if fixed else member.integer()


def _matrix_view(value, address, element, rows, columns, strides, label):
    view = ArrayView(value.read, address, element,
                     [Axis('row', rows, strides[0]), Axis('column', columns, strides[1])], label)
    view.check_readable()
    return view


def _as_vector(view, type_name):
    """One axis for what is a vector by its type."""
    plain = re.search(r'Eigen::(?:Matrix|Array)<([^<>]*)>', type_name)
    if type_name.startswith(('Eigen::Matrix<', 'Eigen::Array<', 'Eigen::Map<', 'Eigen::Ref<')) and plain \
            and plain.group(1):
        rows, columns = [int(word) for word in plain.group(1).split(',')[1:3]]
        if columns == 1 and rows != 1:
            return view.with_axes([view.axes[0]._replace(name='')])
        if rows == 1 and columns != 1:
            return view.with_axes([view.axes[1]._replace(name='')])
    if re.match(r'^Eigen::(Map|Ref)<(const )?Eigen::Matrix<>', type_name) and 1 in view.shape:
        return view.with_axes([view.axes[1 if view.shape[0] == 1 else 0]._replace(name='')])
    return view


def _eigen(value, name, label, nesting):
    if nesting == 0:
        raise Garbage('an Eigen view of a view of itself')
    kind = re.match(r'Eigen::(\w+)<', name).group(1)
    arguments = template_arguments(name)
    if kind in ('Matrix', 'Array'):
        return _eigen_matrix(value, arguments, label)
    if kind in ('Map', 'Ref'):
        return _eigen_map(value, arguments, label)
    inner = value.field('m_matrix' if kind == 'Transpose' else 'm_xpr')
    inner_name = inner.type_name()
    if not EIGEN_STORED.match(inner_name):
        raise Garbage(lazy_text(name))
    whole = _eigen(inner, inner_name, label, nesting - 1)
    if kind == 'Transpose':
        return whole.with_axes([whole.axes[1]._replace(name='row'), whole.axes[0]._replace(name='column')])
    return _eigen_block(value, whole, label)


def _eigen_matrix(value, arguments, label):
    element = element_of(arguments[0])
    rows, columns, options = (int(word) for word in arguments[1:4])
    storage = value.field('m_storage')
    rows, columns = _size(storage, 'm_rows', rows), _size(storage, 'm_cols', columns)
    data = storage.field('m_data')
    inline = data.field('array')
    address = data.integer() if inline is None else inline.address()
    size = element.bytes
    strides = (columns * size, size) if options & 1 else (size, rows * size)
    return _matrix_view(value, address, element, rows, columns, strides, label)


def _eigen_map(value, arguments, label):
    plain = template_arguments(re.sub(r'\bconst\b', '', arguments[0]).strip())
    if len(plain) < 4:
        return _eigen_map_of_unknown(value, label)
    element = element_of(plain[0])
    rows, columns, options = (int(word) for word in plain[1:4])
    rows, columns = _size(value, 'm_rows', rows), _size(value, 'm_cols', columns)
    inner, outer = _map_strides(value)
    outer = outer or (columns if options & 1 else rows) * inner
    size = element.bytes
    strides = (outer * size, inner * size) if options & 1 else (inner * size, outer * size)
    return _matrix_view(value, value.field('m_data').integer(), element, rows, columns, strides, label)


def _map_strides(value):
    """(inner, outer) of a Map or Ref, in elements; outer 0: no gaps."""
    stride = value.field('m_stride')
    inner, outer = (_size(stride, name, None) if stride else None for name in ('m_inner', 'm_outer'))
    if inner is None or outer is None:
        raise Garbage('its strides are not in the debug information: compile with -fstandalone-debug')
    return inner or 1, outer


def _eigen_map_of_unknown(value, label):
    """clang leaves out the parameters of a matrix type that a unit only names. One row or column is enough, where its type
    says that it is one, or both orders mean the same."""
    data = value.field('m_data')
    element = element_of(data.target().type_name())
    rows, columns = _size(value, 'm_rows', -1), _size(value, 'm_cols', -1)
    inner, outer = _map_strides(value)
    is_vector = any(size == 1 and value.field(name).field('m_value') is None
                    for name, size in (('m_rows', rows), ('m_cols', columns)))
    if not is_vector and (rows != 1 and columns != 1 or outer not in (0, inner)):
        raise Garbage('the order of its numbers is not in the debug information: compile with -fstandalone-debug')
    strides = (inner * element.bytes, inner * element.bytes)
    return _matrix_view(value, data.integer(), element, rows, columns, strides, label)


def _eigen_block(value, whole, label):
    rows, columns = _size(value, 'm_rows', 1), _size(value, 'm_cols', 1)
    strides = [axis.stride for axis in whole.axes]
    data = value.field('m_data')
    if data is not None:
        address = data.integer()
    else:
        first = (_size(value, 'm_startRow', 0), _size(value, 'm_startCol', 0))
        address = whole.address + first[0] * strides[0] + first[1] * strides[1]
    return _matrix_view(value, address, whole.element, rows, columns, strides, label)


# ---- one scalar of a stored type ----
def scalar_text(value):
    element = element_of(value.type_name())
    return '%.8g' % element.decode(bytes(value.read(value.address(), element.bytes)))[0]


def summary(value):
    """The line the printers show. Never raises: garbage is told as such."""
    try:
        name = value.type_name()
        if RECORD.match(name):
            return '%s: %s' % (record_text(value), view_of(value).summary())
        if SCALAR.match(name):
            return scalar_text(value)
        return view_of(value).summary()
    except Garbage as reason:
        return '<%s>' % reason
