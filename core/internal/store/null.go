package store

// OrElse is the value of a pointer, or otherwise where it is nil.
func OrElse[T any](value *T, otherwise T) T {
	if value != nil {
		return *value
	}
	return otherwise
}

// NullIfEmpty is nil for an empty string.
func NullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// EmptyIfNil is an empty list for nil: [] in JSON, {} in PostgreSQL.
func EmptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
