package record

// Variant is the aggregate of one variant, as variant.json holds it. It counts
// tasks, not replicates.
type Variant struct {
	VariantID       string   `json:"variant_id"`
	Tasks           int      `json:"tasks_run"`
	Succeeded       int      `json:"tasks_succeeded"`
	Failed          int      `json:"tasks_failed"`
	Errored         int      `json:"tasks_error"`
	Ungraded        int      `json:"tasks_not_graded"`
	AverageScore    *float64 `json:"average_score"` // null when nothing was measured
	AverageDuration float64  `json:"average_duration"`
	TotalTokens     *int64   `json:"total_tokens"`
	Replicates      int      `json:"replicate_count"` // of the task with most
	OverTokens      int      `json:"tasks_token_budget_exceeded"`
	OverCost        int      `json:"tasks_cost_budget_exceeded"`
	PassRate        *float64 `json:"pass_rate"`
	ErrorShare      *float64 `json:"error_share"`
}

// Variants returns the aggregate of each variant, in the order of the rows.
func (s *Summary) Variants() []*Variant {
	var all []*Variant
	for _, rows := range grouped(s.Rows, variantOf) {
		var tasks []*folded
		for _, replicates := range grouped(rows, taskOf) {
			tasks = append(tasks, fold(replicates))
		}
		all = append(all, variantFrom(tasks))
	}
	return all
}

func variantFrom(tasks []*folded) *Variant {
	v := &Variant{VariantID: tasks[0].variant}
	c := &counts{}
	var scores, durations []float64
	measured := false
	for _, task := range tasks {
		c.add(task.status, task.measured)
		measured = measured || task.measured
		if task.score != nil {
			scores = append(scores, *task.score)
		}
		durations = append(durations, task.duration/float64(task.replicates))
		if task.tokens != nil {
			total := *task.tokens
			if v.TotalTokens != nil {
				total += *v.TotalTokens
			}
			v.TotalTokens = &total
		}
		v.Replicates = max(v.Replicates, task.replicates)
	}
	if measured {
		v.AverageScore = mean(scores)
	}
	v.AverageDuration = *mean(durations)
	public := c.public()
	v.Tasks, v.Succeeded, v.Failed, v.Errored, v.Ungraded = public.All, public.Succeeded, public.Failed, public.Errored, public.Ungraded
	v.OverTokens, v.OverCost = c.overTokens, c.overCost
	v.PassRate, v.ErrorShare = public.PassRate, public.ErrorShare
	return v
}

// Write writes variant.json below the run directory. The name may be a stranger's: a
// grade writes it from the run.json that is there.
func (v *Variant) Write(runDir string) error {
	if _, err := (Identity{VariantID: v.VariantID, TaskID: VariantFile}).elements(); err != nil {
		return err
	}
	return WriteBelow(runDir, []string{v.VariantID}, VariantFile, Encode(v))
}

// WriteBelow writes a file into a directory below the run directory, which is
// made when there is none. No link is followed, and the write is durable.
func WriteBelow(runDir string, elements []string, name string, data []byte) error {
	root, err := below(runDir, elements, making)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeDurably(root, name, data)
}
