package cells

// Candidate is a cell in which a new tenant may be placed.
type Candidate struct {
	// Cell is the cell's index.
	Cell    int
	Weight  int
	Tenants int64
}

// Roomiest gives the cell with the most room: the fewest tenants for its weight, the first of equals.
// It is false where there is no candidate.
func Roomiest(candidates []Candidate) (cell int, found bool) {
	var best Candidate
	for _, one := range candidates {
		// tenants ÷ weight, without rounding; the new tenant counts, so that of empty cells the heaviest is first
		if !found || (one.Tenants+1)*int64(best.Weight) < (best.Tenants+1)*int64(one.Weight) {
			best, found = one, true
		}
	}
	return best.Cell, found
}

// Turns says which cell is asked first, in proportion to the weights and spread evenly: smooth
// weighted round robin. It is not safe for concurrent use.
type Turns struct{ credits []int }

// Next gives the indices of all cells, the one whose turn it is first, and the others after it in order.
func (t *Turns) Next(weights []int) []int {
	if len(t.credits) != len(weights) {
		t.credits = make([]int, len(weights))
	}
	first, sum := 0, 0
	for i, weight := range weights {
		t.credits[i] += weight
		sum += weight
		if t.credits[i] > t.credits[first] {
			first = i
		}
	}
	if len(weights) > 0 {
		t.credits[first] -= sum
	}
	order := make([]int, len(weights))
	for i := range order {
		order[i] = (first + i) % len(weights)
	}
	return order
}
