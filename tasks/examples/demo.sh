#!/bin/bash
# Grades example rows in a cell and on the host, runs the example tasks, prints
# the verdicts, and fails when one of them is not what it must be.
#
#     demo.sh BUILD [DIR [rows]]
#
# BUILD is the directory that `make build-test` filled. The rows are made below
# DIR/runs and stay there; without DIR they are made in a temporary directory
# that is removed. With the word rows the example tasks are not run.
#
# The rows are of upstream's smoke task for images of one's own: its only
# criterion tests a file that only the image holds. So the right verdict is
# SUCCESS in a cell of that image and FAILURE on the host.
#
# The example tasks are those beside this file, each of one thing that podgrade
# can do. They are run once, and two of them are executed first and graded later:
# all must be SUCCESS, without a stamp.
set -euo pipefail
build=$(realpath "${1:?usage: demo.sh BUILD [DIR]}")
here=$(cd "$(dirname "$0")" && pwd)
image=localhost/byod-custom-image:0.1.0
PATH=$build/bin:$PATH

work=${2:-}
if [ -z "$work" ]; then
	work=$(mktemp -d "${TMPDIR:-/tmp}/podgrade-demo.XXXXXX")
	trap 'rm -rf "$work"' EXIT
fi
if ! mkdir -p "$work" || ! cd "$work" || ! mkdir image runs task; then
	echo "demo.sh: make the rows in $work: name an empty directory that you can write to" >&2
	exit 2
fi
cp "$here/../testdata/coder-eval/tasks/byod_smoke_test.yaml" task/
mkdir examples
for example in "$here"/*/task.yaml; do
	cp -R "${example%/*}" examples/
done

# The image: a root file system from the static busybox of this machine, and a
# build on top of it that adds the marker. No registry is asked.
make_image() {
	"$build/test/testimage" busybox >base.tar
	podgrade images import base.tar localhost/podgrade-base:1
	podgrade images import base.tar localhost/podgrade-test/busybox:1
	rm base.tar
	echo "BYOD custom image loaded" >image/byod_marker
	cat >image/Containerfile <<-'END'
		FROM localhost/podgrade-base:1
		COPY byod_marker /opt/byod_marker
		LABEL org.coder-eval.byod="true"
	END
	podgrade images build --file image/Containerfile --tag "$image" image
}

# More images of the example tasks: the same busybox with a user of its own, and
# two of a small Debian with programs of this machine: git and Python in the one,
# what installs packages of Python and Node in the other.
make_example_images() {
	"$build/test/testimage" grader >base.tar
	podgrade images import --user grader base.tar localhost/podgrade-test/busybox-as:grader
	"$build/test/testimage" workbench >base.tar
	podgrade images import base.tar localhost/podgrade-test/workbench:1
	"$build/test/testimage" toolbox >base.tar
	podgrade images import base.tar localhost/podgrade-test/toolbox:1
	rm base.tar
}

# One of the facts that pin the image: id, digest or platform.
pinned() {
	podgrade images show "$image" | awk -v name="$1" '$1 == name {print $2}'
}

make_row() { # name of the run, form
	"$build/test/fixture" -task task/byod_smoke_test.yaml -out "runs/$1" -form "$2" \
		-image-id "$id" -digest "$digest" -platform "$platform" >/dev/null
}

# The value of a member of a record's outermost object, without quotes.
member() { # name, record
	sed -n 's/^  "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' "$2"
}

# The weighted score of a record with three decimals; "-" when it has none.
score() { # record
	local value
	value=$(member weighted_score "$1")
	if [ "$value" = null ]; then echo -; else printf '%.3f\n' "$value"; fi
}

# The stamps of a record, sorted.
stamps() { # record
	{ grep -Eo '^ +"((graded|executed)_(on|with|without|from|live)[a-z_]*|limits_not_enforced)":' "$1" || true; } |
		tr -d '": ' | sort | paste -sd, -
}

table=
wrong=0
grade() { # run; status, score, exit code and stamps that must come out; options of evaluate
	local row=runs/$1/default/byod_smoke_test/00 want="$2 $3 $4 $5" code=0 name=$1 got
	shift 5
	printf '\n$ podgrade evaluate %s %s\n' "$row" "$*"
	podgrade evaluate "$row" "$@" || code=$?
	got=$(stamps "$row/task.json")
	got="$(member final_status "$row/task.json") $(score "$row/task.json") $code ${got:--}"
	# shellcheck disable=SC2086 # the words are the columns
	table+=$(printf '%-14s %-11s %5s  %4s  %s' "$name" $got)$'\n'
	if [ "$got" != "$want" ]; then
		wrong=1
		table+="               WRONG, expected: $want"$'\n'
	fi
}

# Runs a command line of podgrade, and notes how many rows of its run came to a
# status, and their stamps.
play() { # label, run, status, what must come out; command line
	local label=$1 run=runs/$2 status=$3 want=$4 code=0 got
	shift 4
	printf '\n$ podgrade %s\n' "$*"
	podgrade "$@" || code=$?
	find "$run" -path '*/artifacts' -prune -o -name task.json -exec cat {} + >all.json
	got=$(stamps all.json)
	got="$(grep -c "^  \"final_status\": \"$status\"" all.json || true)/$(member tasks_run "$run/run.json") $code ${got:--}"
	rm all.json
	# shellcheck disable=SC2086 # the words are the columns
	table+=$(printf '%-14s %-11s %5s  %4s  %s' "$label" "$status" $got)$'\n'
	if [ "$got" != "$want" ]; then
		wrong=1
		table+="               WRONG, expected: $want"$'\n'
	fi
}

make_image
id=$(pinned id) digest=$(pinned digest) platform=$(pinned platform)
make_row cell pinned
make_row cell-unpinned unpinned
make_row host pinned
make_row fresh pinned

grade cell SUCCESS 1.000 0 - --allow-recorded-commands
grade cell-unpinned SUCCESS 1.000 0 graded_with_unpinned_image --allow-recorded-commands
grade host FAILURE 0.000 1 graded_on_host --allow-recorded-commands --allow-host-grading
grade fresh NOT_GRADED - 2 -

if [ "${3:-}" != rows ]; then
	make_example_images
	options=(--default-image localhost/podgrade-test/busybox:1)
	rows=$(podgrade plan "${options[@]}" 'examples/*/task.yaml' | sed -n 's/^.* refused; \([0-9]*\) rows$/\1/p')
	play run examples SUCCESS "$rows/$rows 0 -" run 'examples/*/task.yaml' "${options[@]}" --run-dir runs/examples
	later=(examples/{command,oracle}/task.yaml "${options[@]}" --run-dir runs/later)
	play execute later NOT_GRADED "2/2 0 -" execute "${later[@]}"
	play resume later SUCCESS "2/2 0 -" run --resume "${later[@]}"
fi

printf '\n%-14s %-11s %5s  %4s  %s\n%s' row status score exit stamps "$table"
if [ "$wrong" != 0 ]; then
	echo "demo: a verdict is not what it must be" >&2
	exit 1
fi
