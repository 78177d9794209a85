package gate

// Planned are the statements that ask about the keys of a flush.
func Planned() []string {
	return []string{roomSQL, checksSQL, limitSQL, nextSQL, nextInOrderSQL, lookSQL, sweepSQL}
}
