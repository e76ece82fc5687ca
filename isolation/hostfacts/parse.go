package hostfacts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// osRelease reads the keys of os-release(5) that we use.
func osRelease(text string, s *System) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "PRETTY_NAME":
			s.Name = value
		case "ID":
			s.ID = value
		case "ID_LIKE":
			s.Like = strings.Fields(value)
		}
	}
}

// subidSource returns what nsswitch.conf(5) names for subordinate ids, "" for
// the files, which is the default. There is one source alone (subuid(5)).
func subidSource(text string) string {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "subid" {
			continue
		}
		if sources := strings.Fields(value); len(sources) > 0 && sources[0] != "files" {
			return sources[0]
		}
	}
	return ""
}

// lowestSubordinate is where useradd starts to give ranges.
const lowestSubordinate = 100000

// firstFree is the id from which on no line of /etc/subuid or /etc/subgid has
// any.
func firstFree(texts ...string) uint64 {
	free := uint64(lowestSubordinate)
	for _, text := range texts {
		for line := range strings.Lines(text) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) != 3 {
				continue
			}
			start, err1 := strconv.ParseUint(fields[1], 10, 32)
			count, err2 := strconv.ParseUint(fields[2], 10, 32)
			if err1 == nil && err2 == nil {
				free = max(free, start+count)
			}
		}
	}
	return free
}

// mount is a line of mountinfo(5).
type mount struct{ point, fileSystem string }

// mounts reads mountinfo(5), bottom first: of two on one point the later is
// seen.
func mounts(text string) []mount {
	var all []mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) == 0 {
			continue
		}
		all = append(all, mount{point: unescape(fields[4]), fileSystem: kind[0]})
	}
	return all
}

// unescape replaces the octal escapes of mountinfo(5).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// fileSystemOf returns the file system that an absolute, clean path is on.
func fileSystemOf(all []mount, path string) string {
	best := mount{}
	for _, m := range all {
		if m.point == path || m.point == "/" || strings.HasPrefix(path, m.point+"/") {
			if len(m.point) >= len(best.point) {
				best = m
			}
		}
	}
	return best.fileSystem
}

// layout tells how control groups are mounted.
func layout(all []mount) string {
	var v1, v2 bool
	for _, m := range all {
		v1 = v1 || m.fileSystem == "cgroup"
		v2 = v2 || m.fileSystem == "cgroup2"
	}
	switch {
	case v1 && v2:
		return LayoutHybrid
	case v1:
		return LayoutLegacy
	case v2:
		return LayoutUnified
	}
	return ""
}

// ownGroup is this process's group of version 2, from /proc/self/cgroup.
func ownGroup(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

// controllers sorts the words of cgroup.controllers.
func controllers(text string) []string {
	words := strings.Fields(text)
	slices.SortFunc(words, cmp.Compare[string])
	return words
}
