package tasks

import (
	"math"
	"math/bits"
)

// twister is the Mersenne Twister MT19937, seeded and sampled as Python's
// random.Random does it: --sample takes the same rows as upstream.
type twister struct {
	state [624]uint32
	index int
}

// newTwister seeds from the absolute value of an integer.
func newTwister(seed int64) *twister {
	u := uint64(seed)
	if seed < 0 {
		u = -u
	}
	key := []uint32{uint32(u)}
	if high := uint32(u >> 32); high != 0 {
		key = append(key, high)
	}
	t := &twister{}
	t.seedWord(19650218)
	i, j := 1, 0
	for range max(len(t.state), len(key)) {
		t.state[i] = (t.state[i] ^ (t.state[i-1]^t.state[i-1]>>30)*1664525) + key[j] + uint32(j)
		i, j = t.next(i), (j+1)%len(key)
	}
	for range len(t.state) - 1 {
		t.state[i] = (t.state[i] ^ (t.state[i-1]^t.state[i-1]>>30)*1566083941) - uint32(i)
		i = t.next(i)
	}
	t.state[0] = 1 << 31
	t.index = len(t.state)
	return t
}

func (t *twister) seedWord(s uint32) {
	t.state[0] = s
	for i := 1; i < len(t.state); i++ {
		t.state[i] = 1812433253*(t.state[i-1]^t.state[i-1]>>30) + uint32(i)
	}
}

// next moves the seeding index; at the end it wraps to 1.
func (t *twister) next(i int) int {
	if i++; i < len(t.state) {
		return i
	}
	t.state[0] = t.state[len(t.state)-1]
	return 1
}

// word returns the next 32 random bits.
func (t *twister) word() uint32 {
	const n, m = 624, 397
	if t.index >= n {
		for i := range n {
			y := t.state[i]&(1<<31) | t.state[(i+1)%n]&(1<<31-1)
			t.state[i] = t.state[(i+m)%n] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		t.index = 0
	}
	y := t.state[t.index]
	t.index++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below returns a number from 0 to n-1; n is below 2^32.
func (t *twister) below(n int) int {
	width := bits.Len(uint(n))
	for {
		if r := int(t.word() >> (32 - width)); r < n {
			return r
		}
	}
}

// sample returns k different indices below n in the order of the draw.
func (t *twister) sample(n, k int) []int {
	size := 21 // of a small set; above it a set is cheaper than a pool
	if k > 5 {
		size += int(math.Pow(4, math.Ceil(math.Log(float64(k*3))/math.Log(4))))
	}
	result := make([]int, k)
	if n <= size {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range result {
			j := t.below(n - i)
			result[i] = pool[j]
			pool[j] = pool[n-i-1]
		}
		return result
	}
	selected := make(map[int]bool, k)
	for i := range result {
		j := t.below(n)
		for selected[j] {
			j = t.below(n)
		}
		selected[j] = true
		result[i] = j
	}
	return result
}
