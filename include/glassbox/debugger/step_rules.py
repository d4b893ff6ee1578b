"""What `step` does not enter: Eigen, the standard library, glassbox's own accessors, checks and loops, and what the
examples print with.

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
    # examples/support, the functions that print; those that compute and those on the way from main are entered
    'examples::AnyTensor', 'examples::PrintOptions', 'examples::StagePrinter', 'examples::bytes_text',
    'examples::colours_wanted', 'examples::display_width', 'examples::in_quotes', 'examples::label_text',
    'examples::number_text', 'examples::pad_', 'examples::print_tensor', 'examples::printable', 'examples::say',
    'examples::statistics', 'examples::table_text', 'examples::unknown_stage_text', 'examples::values_text',
    'examples::with_tokens', 'examples::wrapped',
]

# glibc, seen where its debug information is installed. Whole words: gdb's basic regular expressions.
C_FUNCTIONS = ['_*mem[a-z_]*', '_*str[a-z_]*', '_*[a-z]*printf[a-z_]*', '_*malloc', '_*free', '_*exp[f]*',
               '_*sqrt[f]*', '_*cos[f]*', '_*sin[f]*', '_*pow[f]*',
               '_*[GI_]*cxa_[a-z_]*',  # statics are registered and thrown objects made
               '__GI_exit', 'exit', '__run_exit_handlers']  # behind the end of main


# Constructors, destructors and assignments of classes: most of them the compiler wrote, and those it optimises whatever
# is asked of it. Their last names begin with a capital; gdb's regular expressions know no alternation.
CLASS_MEMBERS = ['[A-Z][A-Za-z]*::~*[A-Z]', '[A-Z][A-Za-z]*<[^(]*>::~*[A-Z]', '[A-Z][A-Za-z]*::operator=[(]',
                 '[A-Z][A-Za-z]*<[^(]*>::operator=[(]']
# The same for lldb, whose regular expressions know no \w, and whose settings no backslash.
LLDB_CLASS_MEMBERS = '^(glassbox|examples)::[A-Z][A-Za-z0-9]*(<.*>)?::(~?[A-Z][A-Za-z0-9]*(<.*>)?|operator=)([(].*[)])?$'


def gdb_rules():
    """Basic regular expressions, one rule each: they know no alternation."""
    for name in NOT_ENTERED:
        yield '^' + name
    yield '::check_'
    for namespace in ('glassbox', 'examples'):
        for name in CLASS_MEMBERS:
            yield '^%s::%s' % (namespace, name)
    for name in C_FUNCTIONS:
        yield '^%s$' % name


def lldb_rules():
    """lldb holds the names of function templates with their return type in front, and some of std:: as the linker does."""
    names = '|'.join(NOT_ENTERED + ['_ZN?K?(S[abdiost]|5Eigen|9__gnu_cxx)'])
    yield 'settings set target.process.thread.step-avoid-regexp ' + \
        '^([a-zA-Z_:]+(<[^()]*>)?[&*]? )?(%s)|::check_|^(%s)$|%s' % (names, '|'.join(C_FUNCTIONS), LLDB_CLASS_MEMBERS)
    yield 'settings set target.process.thread.step-avoid-libraries libc.so.6 libm.so.6 libstdc++.so.6'
    yield 'settings set target.process.thread.step-in-avoid-nodebug true'
    yield 'settings set target.process.thread.step-out-avoid-nodebug true'
