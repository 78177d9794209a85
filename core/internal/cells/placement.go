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
