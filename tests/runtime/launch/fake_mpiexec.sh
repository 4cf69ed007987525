#!/bin/sh
# An mpiexec whose variables nobody knows: -n RANKS PROGRAM ARGUMENTS...
shift 2
exec "$@"
