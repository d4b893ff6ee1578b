"""What the model would say if it stopped here ("logit lens"): a hidden state through the final norm and the LM
head, computed from the weights in the program's memory, without running the program. What has a number for each
entry of the vocabulary already, the logits and all that the sampler makes of them, is shown by its top tokens."""
import math
import operator

from tensor_view import Garbage, Mistake, number
from value_views import read_string, view_of
from where import visible

LARGEST = 1 << 26  # products; about three seconds
MOST = 1000        # lines


def lens(where, view, already_normalised, top, position):
    """Text: the top tokens for one position (the last, if none is named) of [..., seq, hidden] or [..., vocab]."""
    if not 1 <= top <= MOST:
        raise Mistake('--top %d is not in 1..%d' % (top, MOST))
    if view.axes and view.size and view.axes[-1].name == 'vocab':
        return _of_vocabulary(where, view, top, position)
    model, head = _model(where)
    hidden = model['norm'].shape[-1]
    if not view.axes or view.shape[-1] != hidden or not view.size:
        raise Mistake('%s is no hidden state: its last axis must be hidden=%d (or vocab)' % (view.type_text(), hidden))
    if head.size > LARGEST:
        raise Mistake('the LM head %s is too large for the debugger' % head.type_text())
    chosen, shown = _position(where, view, position)
    x = list(view.row(view.row_index(chosen)))
    if not already_normalised:
        mean_square = sum(map(operator.mul, x, x)) / len(x)
        inverse_rms = 1 / math.sqrt(mean_square + model['eps'])
        weight = model['norm'].row([])
        x = [value * inverse_rms * w for value, w in zip(x, weight)]
    logits = [sum(map(operator.mul, row, x)) for _, row in head.rows()]
    way = 'through ' + ('the LM head' if already_normalised else 'the final norm and the LM head')
    return '\n'.join(['position %d of %s, %s:' % (shown, view.label, way)] + _top_of_logits(where, logits, top))


def _position(where, view, position):
    """(the row, its position in the text): in a decode step the only row is that of the newest token."""
    count, first = view.row_count(), 0
    if len(view.axes) > 1 and count == view.shape[-2]:
        first = where.first_position(view.axes[-2])
    chosen = count - 1 if position is None else position % count if -count <= position < 0 else position - first
    if not 0 <= chosen < count:
        raise Mistake('--position %d is not in %d..%d' % (position, first, first + count - 1))
    return chosen, first + chosen


def _of_vocabulary(where, view, top, position):
    """The top tokens of logits, by their softmax, or of probabilities."""
    if view.label.startswith('d_'):
        raise Mistake('%s is a gradient: neither logits nor probabilities' % view.label)
    chosen, shown = _position(where, view, position)
    row = list(view.row(view.row_index(chosen)))
    head = '%s%s, ' % ('position %d of ' % shown if len(view.axes) > 1 else '', view.label)
    if not (min(row) >= 0 and abs(sum(row) - 1) <= 1e-3):
        if view.label.split('[')[0] == 'probabilities':
            head += 'whose sum is %s, ' % number(sum(row))
        else:
            return '\n'.join([head + 'through softmax:'] + _top_of_logits(where, row, top))
    order = sorted((token for token, p in enumerate(row) if p > 0), key=lambda token: (-row[token], token))
    lines = [_line(where, row[token], '', token) for token in order[:top]]
    return '\n'.join([head + 'as they are:'] + lines + _left(len(order), len(row), len(lines)))


def _top_of_logits(where, logits, top):
    largest = max(logits)
    if not math.isfinite(largest) or any(x != x for x in logits):
        raise Mistake('the logits are not finite: `glass find nan`')
    total = sum(math.exp(logit - largest) for logit in logits)
    possible = [token for token, logit in enumerate(logits) if logit != -math.inf]
    order = sorted(possible, key=lambda token: (-logits[token], token))[:top]
    lines = [_line(where, math.exp(logits[token] - largest) / total,
                   '  logit %s' % number(logits[token]).rjust(8), token) for token in order]
    return lines + _left(len(possible), len(logits), len(lines))


def _line(where, probability, logit, token):
    return ('  %6.2f %%%s  id %-6d %s' % (100 * probability, logit, token, piece_of(where, token))).rstrip()


def _left(possible, count, shown):
    """A line for a filter that left fewer tokens than were to be shown."""
    return ['  no other of the %d tokens is possible' % count] if possible == shown < count else []


def _model(where):
    """The norm, its eps and the matrix of the LM head, from the callers on the stack."""
    found = {}
    for frame in where.debugger.frames():
        names = {'norm': 'glassbox::RMSNorm<', 'embed_tokens': 'glassbox::Embedding<', 'lm_head': 'glassbox::LMHead<'}
        for name, kind in names.items():
            value = frame.variable(name) if name not in found else None
            if value is not None and value.type_name().startswith(kind):
                found[name] = value
    if 'norm' not in found or 'lm_head' not in found:  # DecoderModel has returned already
        causal_lm = where.causal_lm()
        if causal_lm is None:
            raise Mistake('no model on the stack: stop inside CausalLM::forward'
                          + where.hint(' (`glass next residual`)'))
        model = causal_lm.field('model')
        found = {'norm': model.field('norm'), 'embed_tokens': model.field('embed_tokens'),
                 'lm_head': causal_lm.field('lm_head')}
    head = view_of(found['lm_head'].field('weight'), 'lm_head.weight')
    if head.size == 0:  # tied
        head = view_of(found['embed_tokens'].field('weight'), 'embed_tokens.weight')
    norm = found['norm']
    eps = norm.field('eps')
    element = view_of(norm.field('weight')).element
    raw = bytes(eps.read(eps.address(), element.bytes))
    return {'norm': view_of(norm.field('weight')), 'eps': element.decode(raw)[0]}, head


def piece_of(where, token):
    """The text of a token from the tokenizer's table; '' where no tokenizer is on the stack."""
    for frame in where.debugger.frames():
        for name in ('tokenizer_', 'tokenizer'):
            value = frame.variable(name)
            try:
                if value is None or not value.is_pointer() or not value.integer():
                    continue
                entries = value.field_behind('entries_')
                if entries is None:
                    continue
                first = entries.field('_M_impl').field('_M_start').target()
                address = first.field('piece').address() + token * first.byte_size()
                return visible(read_string(value.read, address))
            except (Garbage, AttributeError):
                continue
    return ''
