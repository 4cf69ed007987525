#!/usr/bin/env python3
"""What a user of an installation reads is there: links lead somewhere, and configurations can be used.

usage: documents.py <prefix> <source folder> <build folder>

Every link of an installed document leads to an installed file; every configuration passes `runtime config check`, every sweep a dry
run; what --help says about the place of configurations and documents is true; and no text names a folder of this build."""
import gzip
import os
import re
import subprocess
import sys

FEWEST_LINKS, FEWEST_CONFIGURATIONS = 60, 10  # a search that finds fewer has failed


def files_below(folder, ending):
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if name.endswith(ending))


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        return file.read()


def links_of(document):
    """The targets of links to files; what stands in blocks and spans of code is none."""
    text = re.sub(r"^```.*?^```", "", read(document), flags=re.M | re.S)
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "code", text))
    return [target.split("#")[0] for target in found if not target.startswith(("http:", "https:", "#"))]


def main():
    prefix, source, build = sys.argv[1:]
    share, faults, links = os.path.join(prefix, "share"), [], 0
    documents, pages = files_below(share, ".md"), files_below(os.path.join(share, "man"), ".gz")
    for document in documents:
        for target in links_of(document):
            links += 1
            if not os.path.exists(os.path.normpath(os.path.join(os.path.dirname(document), target))):
                faults.append(f"{document}: the link to {target} leads nowhere")
    for text in documents + pages + files_below(share, ".toml"):
        faults += [f"{text} names {folder}" for folder in (source, build) if folder in read(text)]

    def run(*arguments):
        done = subprocess.run([os.path.join(prefix, "bin/runtime"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            faults.append(f"runtime {' '.join(arguments)}: exit code {done.returncode}: {done.stdout}")
        return done.stdout

    configs = os.path.join(share, "runtime/configs")
    ready = [os.path.join(configs, name) for name in sorted(os.listdir(configs)) if name.endswith(".toml")]
    for configuration in ready:
        run("config", "check", configuration)
    for sweep in files_below(os.path.join(configs, "sweeps"), ".toml"):
        run("sweep", sweep, "--dry-run")
    said = run("--help")
    for folder in (configs, os.path.join(share, "doc/runtime")):
        if folder not in said or not os.path.exists(os.path.join(folder, "README.md")):
            faults.append(f"runtime --help names no {folder}, or README.md is not there")
    if links < FEWEST_LINKS or len(ready) < FEWEST_CONFIGURATIONS or not pages:
        faults.append(f"{links} links, {len(ready)} configurations and {len(pages)} pages were found")
    print("\n".join(faults) or f"{links} links and {len(ready)} configurations hold")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
