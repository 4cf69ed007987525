#!/bin/sh
# An mpiexec that sets no known variables: -n RANKS PROGRAM ARGUMENTS...
shift 2
exec "$@"
