package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are those of sizes, the longest names first.
var units = []struct {
	name  string
	bytes float64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"B", 1},
}

// parseSize reads a size such as 20GB or 512MiB, in bytes. A number alone is none,
// but for 0: whoever writes 20 means something larger than 20 bytes.
func parseSize(text string) (int64, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	if upper == "0" {
		return 0, nil
	}
	for _, unit := range units {
		number, ok := strings.CutSuffix(upper, unit.name)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if bytes := value * unit.bytes; err == nil && bytes >= 0 && bytes < math.MaxInt64 {
			return int64(bytes), nil
		}
		break
	}
	return 0, fmt.Errorf("is a size such as 20GB or 512MiB, not %q", text)
}

// parseAge reads a time such as 36h or 30d.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("is a time such as 36h or 30d, not %q", text)
}
