// Package null converts values that may be null in PostgreSQL or in JSON.
package null

// Or is the value of a pointer, or otherwise where it is nil.
func Or[T any](value *T, otherwise T) T {
	if value != nil {
		return *value
	}
	return otherwise
}

// Text is nil for an empty string.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List is an empty list for nil: [] in JSON, {} in PostgreSQL.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
