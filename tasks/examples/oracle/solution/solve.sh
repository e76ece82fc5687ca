#!/bin/sh
printf '%s\n' 'wc -l <"$1"' >count.sh
