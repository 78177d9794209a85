package sweep

import "time"

// partitionPeriod is short because a run that finds nothing missing only reads, and because a
// suspended machine may resume days later.
const partitionPeriod = time.Minute

// Partitions creates the partitions of the next days in advance.
func (d Duties) Partitions() *Duty {
	return d.every(partitionPeriod, "partitions", d.store.Retention.MakePartitions)
}
