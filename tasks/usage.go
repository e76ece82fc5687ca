package tasks

// TokenUsage is what a model, of an agent or of a judge, reported
// (spec/run-record.md 2.5).
type TokenUsage struct {
	UncachedInputTokens      int64    `json:"uncached_input_tokens"`
	OutputTokens             int64    `json:"output_tokens"`
	CacheCreationInputTokens int64    `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64    `json:"cache_read_input_tokens"`
	TotalCostUSD             *float64 `json:"total_cost_usd"`
	InputTokens              int64    `json:"input_tokens"` // Complete computes it: the three input buckets
}

// Complete computes what follows from the buckets; of a nil usage, nothing.
func (u *TokenUsage) Complete() {
	if u != nil {
		u.InputTokens = u.UncachedInputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens
	}
}

// Add adds what another turn reported; crashed turns were paid for too. A sum
// of costs of which one is not known is that of the others.
func (u *TokenUsage) Add(other *TokenUsage) {
	u.UncachedInputTokens += other.UncachedInputTokens
	u.OutputTokens += other.OutputTokens
	u.CacheCreationInputTokens += other.CacheCreationInputTokens
	u.CacheReadInputTokens += other.CacheReadInputTokens
	if other.TotalCostUSD != nil {
		sum := *other.TotalCostUSD
		if u.TotalCostUSD != nil {
			sum += *u.TotalCostUSD
		}
		u.TotalCostUSD = &sum
	}
	u.Complete()
}
