package seats

import "time"

// mostCosts is how many estimates are kept: then all are forgotten, and learned again.
const mostCosts = 20_000

// The parts of the old estimate that one call replaces: what takes longer is learned at once, what takes less slowly.
const (
	rising  = 0.5
	falling = 0.1
)

// costs are what calls have taken, in seconds for each unit of size.
type costs struct {
	by map[cost]float64
}

// cost is what an estimate is of. With no owner it is of all.
type cost struct{ operation, on, owner string }

func newCosts() costs { return costs{by: map[cost]float64{}} }

// expected is how long the work will take: as its owner's last, else as anybody's, else as guessed.
func (c *costs) expected(work Work) time.Duration {
	per, known := c.by[cost{work.Operation, work.On, work.Owner}]
	if !known {
		per, known = c.by[cost{work.Operation, work.On, ""}]
	}
	if !known {
		return work.Guess
	}
	return time.Duration(per * float64(max(work.Size, 1)) * float64(time.Second))
}

// correct learns how long the work took.
func (c *costs) correct(work Work, took time.Duration) {
	per := took.Seconds() / float64(max(work.Size, 1))
	c.learn(cost{work.Operation, work.On, ""}, per)
	if work.Owner != "" {
		c.learn(cost{work.Operation, work.On, work.Owner}, per)
	}
}

func (c *costs) learn(of cost, per float64) {
	old, known := c.by[of]
	part := falling
	switch {
	case !known && len(c.by) >= mostCosts:
		clear(c.by)
		part = 1
	case !known:
		part = 1
	case per > old:
		part = rising
	}
	c.by[of] = old + part*(per-old)
}
