#!/usr/bin/env python3
"""Grows the structs of the contract and tries hosts and plugins of both ages with one another.

usage: matrix.py --source FOLDER --work FOLDER [--c-compiler CC] [--compiler CXX] [--in-turn] [--struct NAME]

For each row of the table that is printed, some structs get a field more in a copy of the headers, and host.cpp with plugins/host, the
example in C, the template in C++ and a communicator are compiled against it. Then the old host uses the new plugins, and the new host
uses the old and the new ones. All code is compiled with AddressSanitizer, which finds a side that reads or writes behind the shorter
struct. Exit code 0: everything worked, 1: something failed, and standard output says what.

In the first row all structs grow. In each of the others, which are seven for up to 35 structs, a part of them does, so that for any two
structs there is a row in which the first grows and the second does not. A struct is named if each row in which it grows fails.
--in-turn has a row for each struct instead, which takes four times as long, and --struct one for this struct.
"""
import argparse
import concurrent.futures
import itertools
import math
import pathlib
import re
import shutil
import subprocess
import sys

HOST = ['communicator', 'device', 'error', 'in_call', 'limits', 'loader', 'nearest', 'operation', 'operation_set', 'options', 'plugin', 'printable',
        'reader', 'tables', 'text', 'trust']
PLUGINS = {  # the folders of the plugins that are compiled, and what the table calls them
    'C example': 'plugins/examples/minimal_device_c',
    'C++ template': 'plugins/examples/template_device',
    'communicator': 'tests/plugins/fake_communicator',
    'reader': 'plugins/examples/data_reader',
}
# No plugin of the matrix offers these: struct_sizes_test.cpp tests rt.capture, native_test.cpp of nccl tests rt.native,
# operation_set_test.cpp tests rt.operations.
LEFT_OUT = {'rt_capture_api', 'rt_native_api', 'rt_native_handle', 'rt_operations_api', 'rt_operation_spec', 'rt_parameter_spec'}
FLAGS = ['-O0', '-g1', '-fPIC', '-fsanitize=address', '-fno-omit-frame-pointer']


def structs(headers):
    """The structs of the contract that have a size, in the order of the headers."""
    names = []
    for header in sorted(headers.glob('*.h')):
        names += re.findall(r'^#define (RT_\w+)_SIZE_V1 ', header.read_text(), re.M)
    return [name.lower() for name in names if name.lower() not in LEFT_OUT]


def grow(headers, target, names):
    """Copies the headers; the copies of a later minor version have one more field at the end of each struct of `names`."""
    shutil.copytree(headers, target)
    left = set(names)
    for header in target.glob('*.h'):
        text = header.read_text()
        for name in names:
            grown = re.sub(r'^\} %s;$' % name, '  uint64_t appended;\n} %s;' % name, text, flags=re.M)
            if grown != text:
                left.discard(name)
            text = grown
        if names:
            text = re.sub(r'^(#define RT_ABI_MINOR) (\d+)$', lambda m: f'{m[1]} {int(m[2]) + 1}', text, flags=re.M)
        header.write_text(text)
    if left:
        raise SystemExit(f'matrix.py: no struct {", ".join(sorted(left))} in {headers}; expected "}} NAME;" on a line of its own')


class Builder:
    def __init__(self, options):
        self.source = pathlib.Path(options.source).resolve()
        self.work = pathlib.Path(options.work).resolve()
        self.c, self.cpp = options.c_compiler, options.compiler
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.common = self.work / 'common.h'  # compiled once: most of the time goes into the standard library
        self.common.write_text('#include <algorithm>\n#include <chrono>\n#include <filesystem>\n#include <functional>\n'
                               '#include <map>\n#include <memory>\n#include <string>\n#include <vector>\n')
        self.run([self.cpp, '-std=c++20', *FLAGS, '-x', 'c++-header', self.common, '-o', f'{self.common}.gch'])

    def run(self, command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f'matrix.py: {" ".join(map(str, command))} failed:\n{done.stderr}')

    def compile(self, file, folder, headers):
        out = folder / (file.name + '.o')
        include = ['-I', headers.parent, '-I', self.source, '-I', self.source / 'plugins/sdk', '-I', file.parent]
        if file.suffix == '.c':
            self.run([self.c, '-std=gnu11', *FLAGS, *include, '-c', file, '-o', out])
        else:
            self.run([self.cpp, '-std=c++20', '-DRUNTIME_PLUGIN_VERSION="1"', *FLAGS, '-include', self.common, *include, '-c', file, '-o', out])
        return out

    def build(self, name, names):
        """Builds the host and the plugins against headers in which the structs of `names` have grown. Returns their files."""
        folder = self.work / name
        headers = folder / 'include' / 'rt'
        headers.parent.mkdir(parents=True)
        grow(self.source / 'plugins/include/rt', headers, names)
        built = {}
        host = self.source / 'plugins/host'
        sources = [*(host / f'{part}.cpp' for part in HOST), *sorted((self.source / 'plugins/validate').glob('*.cpp')), self.source / 'tests/plugins/abi/host.cpp']
        objects = [self.compile(file, folder, headers) for file in sources]
        built['host'] = folder / 'abi_host'
        self.run([self.cpp, *FLAGS, *objects, '-o', built['host'], '-ldl', '-pthread'])
        for plugin, place in PLUGINS.items():
            inside = folder / pathlib.Path(place).name
            inside.mkdir()
            files = sorted(file for file in (self.source / place).iterdir() if file.suffix in ('.c', '.cpp'))
            objects = [self.compile(file, inside, headers) for file in files]
            built[plugin] = inside / f'lib{inside.name}.so'
            self.run([self.cpp, *FLAGS, '-shared', *objects, '-o', built[plugin], '-lm', '-pthread'])
        return built


def attempt(host, plugin):
    """Returns '' if the host could use the plugin, else what went wrong."""
    try:
        done = subprocess.run([host, plugin], capture_output=True, text=True, timeout=120, env={'ASAN_OPTIONS': 'detect_leaks=0'})
    except subprocess.TimeoutExpired:
        return 'it hangs'
    return '' if done.returncode == 0 else (done.stderr.strip() or f'exit code {done.returncode}')


def row(builder, old, name, names):
    """Builds and tries one row. Returns its cells and what failed."""
    new = builder.build(name, names)
    cells, failures = [], []
    for plugin in PLUGINS:
        for host, given, label in ((old['host'], new[plugin], 'old host, new'), (new['host'], old[plugin], 'new host, old'),
                                   (new['host'], new[plugin], 'both new')):
            failure = attempt(host, given)
            cells.append('fails' if failure else 'works')
            if failure:
                failures.append(f'{name}: {label} {plugin}:\n  ' + failure.replace('\n', '\n  '))
    shutil.rmtree(builder.work / name)
    return cells, failures


def rows_of_parts(names):
    """Returns the rows in which a part of the structs grows: the name of each and its structs. A struct has a set of rows of its own. All
    sets have the same size, so none is within another."""
    count = next(rows for rows in itertools.count(1) if math.comb(rows, rows // 2) >= len(names))
    rows = {f'part {row + 1} of {count}': [] for row in range(count)}
    for name, own in zip(names, itertools.combinations(rows, count // 2)):
        for part in own:
            rows[part].append(name)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--source', required=True)
    parser.add_argument('--work', required=True)
    parser.add_argument('--c-compiler', default='cc')
    parser.add_argument('--compiler', default='c++')
    parser.add_argument('--struct', action='append', help='only this struct; may be given several times')
    parser.add_argument('--in-turn', action='store_true', help='a row for each struct')
    options = parser.parse_args()

    names = structs(pathlib.Path(options.source) / 'plugins/include/rt')
    if options.struct or options.in_turn:
        rows = {name: [name] for name in options.struct or names}
    else:
        rows = {'all': names, **rows_of_parts(names)}
    builder = Builder(options)
    old = builder.build('old', [])
    failures, fine = [], set()
    for plugin in PLUGINS:
        failure = attempt(old['host'], old[plugin])
        if failure:
            failures.append(f'nothing has grown: {plugin}:\n  {failure}')
    print(f'{"":22}' + ''.join(f'{plugin:27}' for plugin in PLUGINS))
    print(f'{"what grows":22}' + f'{"old host":9}{"old plug.":9} {"both new":8}' * len(PLUGINS))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        started = {name: pool.submit(row, builder, old, name, grown) for name, grown in rows.items()}
        for name, result in started.items():
            cells, failed = result.result()
            print(f'{name:22}' + ''.join(f'{cell:9}' for cell in cells), flush=True)
            failures += failed
            if not failed:
                fine.update(rows[name])
    print(*failures, sep='\n')
    suspects = set().union(*rows.values()) - fine
    if suspects:
        print('one or several of these are at fault, because every row in which they grow fails; --struct NAME tells: '
              + ', '.join(sorted(suspects)))
    works = len(rows) * 3 * len(PLUGINS) - len(failures)
    print(f'{len(names)} structs, {works} of {len(rows) * 3 * len(PLUGINS)} combinations work')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
