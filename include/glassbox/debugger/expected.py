"""Reference values for the stop at hand: a folder with index.json and .npy files, as other programs computed them.

index.json: "prompts": [{"name", "input_ids", "logits": [{"file", "dtype"}]}], "stages": [{"stage", "file",
"axes", "shape", "prompt"}]. A stage of a layer is called "layer3.scores" there.
"""
import json
import os

import npy
from tensor_view import Axis, Garbage, Mistake, exact
from value_views import view_of
from compare import compare

# our stage -> the reference's name; {0} is the layer
NAMES = {
    'inputs_embeds': 'embedding', 'cos': 'rope_cos', 'sin': 'rope_sin', 'residual': 'layer{0}.input',
    'input_layernorm': 'layer{0}.attn_norm', 'q_proj': 'layer{0}.q', 'k_proj': 'layer{0}.k', 'v_proj': 'layer{0}.v',
    'query_heads': 'layer{0}.q', 'key_heads': 'layer{0}.k', 'value_states': 'layer{0}.v',
    'query_states': 'layer{0}.q_rope', 'key_states': 'layer{0}.k_rope', 'scores': 'layer{0}.scores',
    'masked_scores': 'layer{0}.masked_scores', 'attn_weights': 'layer{0}.probabilities',
    'context': 'layer{0}.context', 'merged_heads': 'layer{0}.context', 'attn_output': 'layer{0}.attn_out',
    'attn_residual': 'layer{0}.attn_residual', 'post_attention_layernorm': 'layer{0}.mlp_norm',
    'gate_proj': 'layer{0}.gate', 'up_proj': 'layer{0}.up', 'activated': 'layer{0}.activated',
    'gated': 'layer{0}.gated', 'down_proj': 'layer{0}.down', 'layer_output': 'layer{0}.output', 'norm': 'final_norm',
}
# These the reference holds as [position, head, head_dim], glassbox as [head, position, head_dim].
HEADS_FIRST = ('query_heads', 'key_heads', 'value_states', 'query_states', 'key_states', 'context')


class Expected:
    def __init__(self, where):
        self.where = where
        self.folder = os.environ.get('GLASSBOX_EXPECT', '')
        self.index = None

    def open(self, folder):
        path = os.path.expanduser(folder)
        for place in (path, os.path.join(path, 'reference')):
            if os.path.exists(os.path.join(place, 'index.json')):
                path = place
                break
        try:
            with open(os.path.join(path, 'index.json'), encoding='utf-8') as file:
                self.index = json.load(file)
        except OSError as error:
            raise Mistake('%s: %s' % (os.path.join(path, 'index.json'), error.strerror)) from None
        except ValueError as error:
            raise Mistake('%s: %s' % (os.path.join(path, 'index.json'), error)) from None
        self.folder = path

    def text(self, here):
        if self.index is None:
            if not self.folder:
                raise Mistake('no reference is known: `glass expect FOLDER`, or GLASSBOX_EXPECT in the environment')
            self.open(self.folder)
        if here.at is None:
            raise Mistake('no stage is complete on this line' + self.where.hint(': `glass next`'))
        ours = view_of(here.value(), here.at.stage)
        prompt = self.prompt()
        theirs = self.reference(here, prompt, ours)
        allowed = 1e-10 if ours.element.short == 'f64' else 1e-4
        statistics, _ = theirs.statistics()
        size = max(1.0, abs(statistics.minimum or 0), abs(statistics.maximum or 0))
        result = compare(ours, theirs, allowed * size)
        agrees = ' are equal' in result or ' agree within' in result
        first = list(theirs.row(theirs.row_index(0)))[:6]
        return '%s: this run %s the reference\n  reference begins %s\n  %s' % (
            here.words(), 'agrees with' if agrees else 'DIFFERS from', ' '.join(map(exact, first)),
            result.replace('\n', '\n  '))

    def prompt(self):
        """The reference's prompt that this pass was given."""
        ids, _ = self.where.find_variable('input_ids')
        if ids is None:
            raise Mistake('no input_ids on the stack, so the prompt is not known')
        view = view_of(ids)
        if view.row_count() != 1:
            raise Mistake('a batch of %d texts: the reference has single ones' % view.row_count())
        wanted = [int(x) for x in view.row([0])]
        if self.where.step():
            raise Mistake('this is decode step %d: the reference has whole prompts' % self.where.step())
        for prompt in self.index['prompts']:
            if prompt['input_ids'] == wanted:
                return prompt
        lines = ['  %s: %s' % (prompt['name'], ids_text(prompt['input_ids'])) for prompt in self.index['prompts']]
        raise Mistake('the reference has no prompt with the input_ids %s; it has\n%s'
                      % (ids_text(wanted), '\n'.join(lines)))

    def held(self, prompt):
        """The stages that the reference holds for a prompt, in our names, those of the layers first."""
        theirs = {one['stage'] for one in self.index['stages'] if one['prompt'] == prompt['name']}
        layers = sorted({int(one[len('layer'):].split('.')[0]) for one in theirs if one.startswith('layer')})
        inner = [name for name in NAMES if '{' in NAMES[name]
                 and any(NAMES[name].format(layer) in theirs for layer in layers)]
        outer = ' '.join([name for name in NAMES if NAMES[name] in theirs] + ['logits'])
        if not inner:
            return outer
        of_layers = 'of layer%s %s' % ('s' if len(layers) > 1 else '', ' '.join(map(str, layers)))
        return '%s %s\n  %s' % (' '.join(inner), of_layers, outer)

    def reference(self, here, prompt, ours):
        stage = here.at.stage
        if stage == 'logits':
            files = {one['dtype']: one['file'] for one in prompt['logits']}
            view = npy.read(os.path.join(self.folder, files['float64']))
            kept = ours.shape[-2]
            return view.slice('%d:, :' % (view.shape[0] - kept))
        if stage not in NAMES:
            raise Mistake('the reference does not hold the stage %s; for %s it holds\n  %s'
                          % (stage, prompt['name'], self.held(prompt)))
        name = NAMES[stage].format(here.layer)
        for one in self.index['stages']:
            if one['stage'] == name and one['prompt'] == prompt['name']:
                return arranged(stage, npy.read(os.path.join(self.folder, one['file'])), ours)
        raise Mistake('the reference does not hold %s; for %s it holds\n  %s'
                      % (here.words(), prompt['name'], self.held(prompt)))


def ids_text(ids, most=12):
    """'121 31 45 ... (128 ids)'"""
    return ' '.join(map(str, ids[:most])) + (' ... (%d ids)' % len(ids) if len(ids) > most else '')


def arranged(stage, view, ours):
    """The reference's axes in our order; heads that we hold merged are merged."""
    axes = view.axes
    if stage in HEADS_FIRST and len(axes) == 3:
        axes = [axes[1], axes[0], axes[2]]
    elif len(axes) == 3 and len([n for n in ours.shape if n != 1]) <= 2 and stage not in ('scores',):
        merged = axes[1].size * axes[2].size
        if merged == ours.shape[-1]:
            axes = [axes[0], Axis('', merged, axes[2].stride)]
    return view.with_axes(axes)
