#!/usr/bin/env python3
"""test_ide.py dap|mi PROGRAM: what an IDE sees. VS Code and others speak to lldb by the Debug Adapter Protocol (dap), to gdb
by its machine interface (mi); here we are the IDE: a breakpoint in a header, the stack, the variables there with our
summaries, the rows of a tensor, one of glassbox's commands, all with the commands of .vscode/launch.json. PROGRAM is
debugged_flow.

Faults that must turn it red: no summary for a tensor, or an address only; rows as arrays of letters; a tensor not made yet
shown as one; a breakpoint in a header not taken; a file, program or task that .vscode names and that is not there.

Exit: 0 passed, 1 failed, 77 skipped, with the reason."""
import json
import os
import re
import shutil
import subprocess
import sys

from run_session import SOURCE, environment, skip

ATTENTION = os.path.join(SOURCE, 'include', 'glassbox', 'attention.hpp')
HEAD = 'f32[batch=1, head=4, query=5, key=5] min=-2.351 max=2.417 mean=0.06908 nan=0 inf=0'
ROW = '-1.767      1.197     0.5125    -0.6584     -2.351'


def line_of(text):
    with open(ATTENTION, encoding='utf-8') as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


LINE = line_of('Tensor<Scalar> masked_scores = ')


class Failed(Exception):
    pass


def launch_configuration(kind):
    """The first configuration of .vscode/launch.json for this debugger; what it needs must be there."""
    with open(os.path.join(SOURCE, '.vscode', 'launch.json'), encoding='utf-8') as file:
        launch = json.loads(file.read().replace('${workspaceFolder}', SOURCE))
    with open(os.path.join(SOURCE, '.vscode', 'tasks.json'), encoding='utf-8') as file:
        labels = [task['label'] for task in json.load(file)['tasks']]
    for one in launch['configurations']:
        expect('its task exists', one.get('preLaunchTask', labels[0]) in labels, one)
        example = os.path.basename(one['program'])
        expect('its program is an example', example.startswith('${') or
               os.path.exists(os.path.join(SOURCE, 'examples', example + '.cpp')), one)
    return next(one for one in launch['configurations'] if one['type'] == kind)


def expect(what, condition, found):
    if not condition:
        raise Failed('%s; found %s' % (what, found))


class Dap:
    """Messages with a length in front; responses carry the number of their request."""

    def __init__(self, program):
        adapter = next((name for name in ('lldb-vscode-14', 'lldb-vscode', 'lldb-dap') if shutil.which(name)), None)
        if adapter is None:
            skip('no lldb-vscode or lldb-dap here')
        self.process = subprocess.Popen([adapter], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=environment({}))
        self.program, self.number, self.waiting, self.has_stopped = program, 0, [], False

    def send(self, command, **arguments):
        self.number += 1
        body = json.dumps({'seq': self.number, 'type': 'request', 'command': command, 'arguments': arguments}).encode()
        self.process.stdin.write(b'Content-Length: %d\r\n\r\n' % len(body) + body)
        self.process.stdin.flush()
        return self.number

    def read(self):
        length = 0
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed('the adapter has ended')
            if line == b'\r\n':
                return json.loads(self.process.stdout.read(length))
            length = int(line.split(b':')[1])

    def wait(self, wanted):
        for message in self.waiting:
            if wanted(message):
                self.waiting.remove(message)
                return message
        while True:
            message = self.read()
            if wanted(message):
                return message
            if message['type'] == 'event' and message['event'] == 'terminated' and not self.has_stopped:
                skip('lldb cannot start a program here')
            self.waiting.append(message)

    def request(self, command, **arguments):
        number = self.send(command, **arguments)
        message = self.wait(lambda one: one['type'] == 'response' and one['request_seq'] == number)
        expect('%s succeeds' % command, message['success'], message)
        return message.get('body')

    def event(self, name):
        return self.wait(lambda one: one['type'] == 'event' and one['event'] == name)['body']

    def play(self):
        self.request('initialize', adapterID='glassbox', pathFormat='path', linesStartAt1=True)
        self.send('launch', program=self.program, disableASLR=False, initCommands=[
            'settings set target.disable-aslr false'] + launch_configuration('lldb')['initCommands'])
        self.wait(lambda one: one['type'] == 'event' and one['event'] == 'initialized')
        taken = self.request('setBreakpoints', source={'path': ATTENTION}, breakpoints=[{'line': LINE}])['breakpoints']
        expect('the breakpoint in the header is taken', taken[0]['verified'] and taken[0]['line'] == LINE, taken)
        self.request('configurationDone')
        thread = self.event('stopped')['threadId']
        self.has_stopped = True
        frames = self.request('stackTrace', threadId=thread, startFrame=0, levels=2)['stackFrames']
        expect('it stops in Attention::forward', frames[0]['line'] == LINE and 'Attention' in frames[0]['name'], frames)
        expect('the caller is the layer', 'DecoderLayer' in frames[1]['name'], frames)
        scope = self.request('scopes', frameId=frames[0]['id'])['scopes'][0]
        variables = {one['name']: one for one in self.request(
            'variables', variablesReference=scope['variablesReference'])['variables']}
        expect('scores has its summary', variables['scores']['value'].strip() == HEAD, variables['scores'])
        expect('an argument has one', 'f32[batch=1, seq=5, hidden=16]' in variables['hidden_states']['value'],
               variables['hidden_states'])
        expect('masked_scores is not computed yet', variables['masked_scores']['value'].strip() ==
               '<not computed yet: line %d makes it>' % LINE, variables['masked_scores'])
        rows = self.request('variables', variablesReference=variables['scores']['variablesReference'])['variables']
        expect('the first row is labelled', rows[0]['name'] == '[head=0, query=0]', rows[0])
        expect('the first row has its numbers', rows[0]['value'].strip() == ROW, rows[0])
        told = self.request('evaluate', expression='`glass stats scores', frameId=frames[0]['id'], context='repl')['result']
        expect('glass answers in the console', 'elements 100, 400 bytes' in told, told)
        hovered = self.request('evaluate', expression='scores', frameId=frames[0]['id'], context='hover')['result']
        expect('hovering shows the summary', hovered.strip() == HEAD, hovered)
        self.request('disconnect', terminateDebuggee=True)


class Mi:
    """A command a line; answers begin with ^, what happens by itself with * = or ~."""

    def __init__(self, program):
        if shutil.which('gdb') is None:
            skip('no gdb here')
        self.process = subprocess.Popen(['gdb', '-nx', '-q', '--interpreter=mi2', program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment({}))
        self.said = []

    def until(self, start):
        while True:
            line = self.process.stdout.readline().decode('utf-8', 'replace')
            if not line:
                raise Failed('gdb has ended: %s' % self.said[-5:])
            self.said.append(line.rstrip())
            if line.startswith('*stopped,reason="exited'):
                skip('gdb cannot start a program here')
            if line.startswith(start):
                return line.rstrip()
            if line.startswith('^error'):
                if 'ptrace' in line or 'Operation not permitted' in line:
                    skip('gdb cannot start a program here: ' + line)
                raise Failed(line)

    def request(self, command, answer='^done'):
        self.process.stdin.write(command.encode() + b'\n')
        self.process.stdin.flush()
        return self.until(answer)

    def play(self):
        self.request('-gdb-set disable-randomization off')
        self.request('-gdb-set startup-with-shell off')
        for command in launch_configuration('cppdbg')['setupCommands']:
            self.request(command['text'])
        taken = self.request('-break-insert attention.hpp:%d' % LINE)
        expect('the breakpoint in the header is taken', 'line="%d"' % LINE in taken, taken)
        self.request('-exec-run', '^running')
        stopped = self.until('*stopped')
        expect('it stops in Attention::forward', 'reason="breakpoint-hit"' in stopped and 'Attention' in stopped, stopped)
        frames = self.request('-stack-list-frames 0 1')
        expect('the caller is the layer', 'func="glassbox::DecoderLayer<float>::forward"' in frames, frames)
        variables = self.request('-stack-list-variables --simple-values')
        expect('an argument has its summary', 'value="f32[batch=1, seq=5, hidden=16] min=-1.712' in variables, variables)
        hovered = self.request('-data-evaluate-expression scores')
        expect('hovering shows the summary', hovered.startswith('^done,value="' + HEAD + ' = {'), hovered)
        self.request('-var-create scores * scores')
        rows = self.request('-var-list-children --all-values scores 0 2')
        expect('the first line below it is the summary', 'exp="[tensor]",numchild="0",value="%s"' % HEAD in rows, rows)
        expect('then come rows', re.search(r'exp="\[head=0, query=0\]",numchild="0",value=" *%s"' % re.escape(ROW), rows),
               rows)
        self.request('-var-create masked * masked_scores')
        coming = self.request('-var-list-children --all-values masked 0 2')
        expect('masked_scores is not computed yet', 'value="<not computed yet: line %d makes it>"' % LINE in coming, coming)
        self.request('-interpreter-exec console "glass stats scores"')
        expect('glass answers in the console', any('elements 100, 400 bytes' in line for line in self.said), self.said[-8:])
        self.request('-gdb-exit', '^exit')


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ('dap', 'mi'):
        sys.exit('usage: test_ide.py dap|mi PROGRAM')
    ide = (Dap if sys.argv[1] == 'dap' else Mi)(os.path.abspath(sys.argv[2]))
    try:
        ide.play()
    except Failed as failed:
        print('FAILED: %s' % failed)
        sys.exit(1)
    finally:
        ide.process.kill()
    print('PASSED')


main()
