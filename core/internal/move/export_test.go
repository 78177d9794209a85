package move

// TableNames are all that a move knows.
func TableNames() (names []string) {
	for _, one := range tables() {
		names = append(names, one.name)
	}
	return names
}
