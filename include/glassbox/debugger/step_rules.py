"""What `step` does not enter: Eigen, the standard library, and glassbox's own accessors, checks and loops.

A line of the book then takes one `step`, and `step` into a function of the book arrives at its first line. To look
into what is skipped, set a breakpoint there: rules bind `step`, never breakpoints.
"""

# Beginnings of function names.
NOT_ENTERED = [
    'Eigen::', 'std::', '__gnu_', '__cxx', 'operator new', 'operator delete',
    'glassbox::kernels::',       # the matrix products' loops
    'glassbox::loops::',         # the loops over the numbers of one row
    'glassbox::Tensor<',         # accessors and copies: row(), matrix(), dim(), ...
    'glassbox::Axis::',
    'glassbox::WeightMatrix::',
    'glassbox::shape_string',
    'glassbox::allocate_zeroed', 'glassbox::release_buffer',
    'glassbox::check_',          # shape checks: they say something only when they throw
    'glassbox::matmul_output',   # the same for the product's shape
    'glassbox::multiply_transposed',  # which of the products' loops is taken; matmul says what is multiplied
    'glassbox::position_ids_from_mask',  # counts along a row of the mask; the stage position_ids shows it
    'glassbox::LayerKVCache<',   # append copies rows; the stages cached_keys and cached_values show them
    'glassbox::rotate_half',     # row by row, called from apply_rotary_pos_emb
    'glassbox::stage',           # stage() and stage_state(): the stage line itself is the place to stop
    'glassbox::set_record_tensor',
    'glassbox::throw_error',
]

# glibc, seen where its debug information is installed. Whole words: gdb's basic regular expressions.
C_FUNCTIONS = ['_*mem[a-z_]*', '_*str[a-z_]*', '_*[a-z]*printf[a-z_]*', '_*malloc', '_*free', '_*exp[f]*',
               '_*sqrt[f]*', '_*cos[f]*', '_*sin[f]*', '_*pow[f]*']


def gdb_rules():
    """Basic regular expressions, one rule each: they know no alternation."""
    for name in NOT_ENTERED:
        yield '^' + name
    yield '::check_'
    for name in C_FUNCTIONS:
        yield '^%s$' % name


def lldb_rules():
    """lldb holds the names of function templates with their return type in front."""
    names = '|'.join(NOT_ENTERED)
    yield 'settings set target.process.thread.step-avoid-regexp ' + \
        '^([a-zA-Z_:]+(<[^()]*>)?[&*]? )?(%s)|::check_' % names
    yield 'settings set target.process.thread.step-in-avoid-nodebug true'
    yield 'settings set target.process.thread.step-out-avoid-nodebug true'
