#!/usr/bin/env bash
# Writes the manual pages of `runtime` from what --help prints, so that a page has the options of its program: runtime.1 and,
# for each command, runtime-<command>.1 (`man runtime train` shows it), which has the command's own commands too.
#
#   man_pages.sh <program runtime> <version> <folder>
set -euo pipefail
program=$1 version=$2 folder=$3

# help_of <command...>: what --help prints for the command. Without a PATH the program lists only commands that lie beside it.
# Where the programs of this build have their configurations and documents, those of an installation have others.
share=$(cd "$(dirname "$program")/.." && pwd -P)/share
help_of() { PATH='' "$program" "$@" --help </dev/null | sed "s|$share/|share/|g"; }

# commands_in: the names in the lists of commands of the help on standard input.
commands_in() {
  awk 'tolower($0) ~ /^(subcommands|commands that are programs of their own):$/ {on = 1; next}
    !/^  / {on = 0}
    on && /^  [a-z]/ {print $1}'
}

# sections [part]: prints the help on standard input as the sections of a page; "part" for a command of a command.
sections() { awk -v part="${1:-}" -f "$(dirname "$0")/help_to_man.awk"; }

# page <command...>: prints the page of a command, or of the program.
page() {
  local name help sub
  name=$(IFS=- && echo "runtime${*:+-$*}")
  help=$(help_of "$@")
  printf '.TH %s 1 "" "runtime %s" "User Commands"\n' "${name^^}" "$version"
  printf '.SH NAME\n%s \\- ' "$name"
  sed -n '/./{s/\\/\\e/g; s/\.$//; p; q}' <<<"$help"
  sections <<<"$help"
  if [ $# -gt 0 ]; then
    for sub in $(commands_in <<<"$help"); do
      printf '.SH "%s"\n' "${*^^} ${sub^^}"
      help_of "$@" "$sub" | sections part
    done
  fi
}

mkdir -p "$folder"
rm -f "$folder"/runtime*.1.gz
page | gzip -9n >"$folder/runtime.1.gz"
for command in $(help_of | commands_in); do
  page "$command" | gzip -9n >"$folder/runtime-$command.1.gz"
done
