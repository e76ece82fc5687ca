package tasks

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
)

// choose applies the selectors in their order (task-file 4.4) and returns the
// indices of the rows that stay, in the order of the dataset: upstream's order
// after a draw is not known.
func (e *Expansion) choose(f *File, rows []*node, s Selection) ([]int, error) {
	chosen := make([]int, len(rows))
	for i := range chosen {
		chosen[i] = i
	}
	chosen, err := e.split(f, rows, chosen, s.Split)
	if err != nil {
		return nil, err
	}
	data := f.Task.Dataset
	switch {
	case s.Sample > 0:
		if s.Sample < len(chosen) {
			e.Selectors = append(e.Selectors, fmt.Sprintf("sample %d", s.Sample))
			chosen = pick(chosen, newTwister(0).sample(len(chosen), s.Sample))
		}
	case s.PerStratum > 0:
		chosen = e.stratify(f, rows, chosen, s.PerStratum)
	case data.SamplePerStratum > 0:
		chosen = e.stratify(f, rows, chosen, data.SamplePerStratum)
	}
	return chosen, nil
}

// split keeps the rows of one split. A dataset without labels passes whole.
func (e *Expansion) split(f *File, rows []*node, chosen []int, name string) ([]int, error) {
	if name == "" {
		return chosen, nil
	}
	var kept []int
	unlabelled := 0
	for _, i := range chosen {
		label := ""
		if at := rows[i].get(f.Task.Dataset.SplitField); at != nil && at.kind != nullNode {
			label, _ = Str(at.value())
		}
		switch label {
		case "":
			unlabelled++
		case name:
			kept = append(kept, i)
		}
	}
	at := f.root.get("dataset")
	switch {
	case unlabelled == len(chosen):
		return chosen, nil
	case len(kept) == 0:
		return nil, fmt.Errorf("cannot select split %s of %s: %w; leave out --split or label rows with %s",
			quote(name), quoteFile(f.Path), ErrNoSplit, quoteKey(f.Task.Dataset.SplitField))
	case unlabelled > 0:
		e.Warnings = append(e.Warnings, Problem{at.place(), "dataset", fmt.Sprintf("%d of %d rows have no %s and are left out", unlabelled, len(chosen), quoteKey(f.Task.Dataset.SplitField))})
	}
	if len(kept) < len(chosen) {
		e.Selectors = append(e.Selectors, "split "+quoteBare(name))
	}
	return kept, nil
}

// stratify draws up to n rows of each stratum, the strata in the order in which
// they first appear.
func (e *Expansion) stratify(f *File, rows []*node, chosen []int, n int) []int {
	var order []string
	strata := map[string][]int{}
	for _, i := range chosen {
		name := ""
		if at := rows[i].get(f.Task.Dataset.StratifyField); at != nil {
			name, _ = Str(at.value())
		}
		if strata[name] == nil {
			order = append(order, name)
		}
		strata[name] = append(strata[name], i)
	}
	seed := f.Task.Dataset.SampleSeed
	random := generator(seed)
	e.Strata = map[string]int{}
	var kept []int
	for _, name := range order {
		members := strata[name]
		if len(members) > n {
			members = pick(members, random.sample(len(members), n))
		}
		e.Strata[name] = len(members)
		kept = append(kept, members...)
	}
	slices.Sort(kept)
	if len(kept) < len(chosen) {
		e.Selectors = append(e.Selectors, fmt.Sprintf("sample-per-stratum %d", n))
		if seed == nil {
			e.Warnings = append(e.Warnings, Problem{f.root.get("dataset").place(), "dataset.sample_seed", "is not set: each run draws other rows"})
		}
	}
	return kept
}

// generator is seeded by the dataset, or anew for each run.
func generator(seed *int) *twister {
	if seed != nil {
		return newTwister(int64(*seed))
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return newTwister(int64(binary.LittleEndian.Uint64(b[:]) >> 1))
}

// pick returns the members at the indices, in their own order.
func pick(members []int, indices []int) []int {
	slices.Sort(indices)
	out := make([]int, len(indices))
	for i, at := range indices {
		out[i] = members[at]
	}
	return out
}
