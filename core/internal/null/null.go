// Package null is for what may be null in PostgreSQL or in JSON.
package null

// Or is what a pointer points to, or another value where it is nil.
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

// List is an empty list for a nil one: JSON has [] for it, and PostgreSQL {}.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
