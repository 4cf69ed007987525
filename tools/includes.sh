#!/usr/bin/env bash
# Compiles sources one by one and headers by themselves, without making code: finds what a file uses and does not
# include, which a build of many sources together (RUNTIME_UNITY) hides.
#
#   tools/includes.sh           the sources and headers that differ from where the branch left origin/main, and the headers
#                               that include one of these headers
#   tools/includes.sh --all     all sources and all headers
#   tools/includes.sh file...   these
. "$(dirname "$0")/common.sh"

configure_single

# with_includers: the headers whose names it reads, and those that include one of them.
with_includers() {
  local headers pattern
  mapfile -t headers
  [ ${#headers[@]} -gt 0 ] || return 0
  # An include may begin in a folder of includes: rt/operations.h. git grep exits with 1 if no header includes one of these.
  pattern=$(printf '%s\n' "${headers[@]}" | sed -E 's|^plugins/(include\|sdk)/||; s|[.]|[.]|g' | paste -sd '|')
  { printf '%s\n' "${headers[@]}"; git grep -lE "#include \"($pattern)\"" -- '*.h' || [ $? -eq 1 ]; } | sort -u
}

# wanted: the files to compile.
wanted() {
  case "${1:-}" in
    --all) git ls-files '*.cpp' '*.h' ;;
    "")
      changed_code "$(base_commit)" '*.cpp'
      changed_code "$(base_commit)" '*.h' | with_includers
      ;;
    *) printf '%s\n' "$@" ;;
  esac
}

# A header is compiled with the options of a source of its folder, or else of a folder above it. Device code and files of
# other programs, which no source here is near, are left out.
wanted "$@" | python3 tools/alone.py build-single/compile_commands.json | xargs -0 -r -P "$(nproc)" -n 1 bash -c
say "each file includes what it uses"
