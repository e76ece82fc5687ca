package tasks

import "math"

// Sum adds as Python's sum() does since 3.12: with the rounding errors carried
// along (Neumaier), so that ten times 0.1 is 1.
func Sum(values []float64) float64 {
	total, carried := 0.0, 0.0
	for _, v := range values {
		next := total + v
		if math.Abs(total) >= math.Abs(v) {
			carried += (total - next) + v
		} else {
			carried += (v - next) + total
		}
		total = next
	}
	if math.IsInf(total, 0) || math.IsNaN(carried) {
		return total
	}
	return total + carried
}
