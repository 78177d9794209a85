// Package settings reads a program's settings from its environment.
package settings

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/caarlos0/env/v11"

	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// Read reads settings by the names of their environment variables into a struct with env tags. Others have their
// default, and a secret may be in a file that its NAME_FILE names. The error has every problem, each named by its
// variable; what cannot be read keeps its default.
func Read[T any](into *T, environment map[string]string) error {
	// The defaults first, so that an unreadable setting has a valid value, and is not reported a second time.
	if err := env.ParseWithOptions(into, env.Options{Environment: map[string]string{}}); err != nil {
		return err
	}
	environment, err := secret.WithFiles(environment, reflect.TypeFor[T]())
	problems := []error{err}
	if err := env.ParseWithOptions(into, env.Options{Environment: environment}); err != nil {
		problems = append(problems, byVariable(err, reflect.TypeFor[T]()))
	}
	return errors.Join(problems...)
}

// byVariable names unreadable settings by their variables: the library names the struct's fields.
func byVariable(err error, config reflect.Type) error {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return err
	}
	problems := make([]error, len(all.Errors))
	for i, one := range all.Errors {
		problems[i] = one
		unreadable, ok := errors.AsType[env.ParseError](one)
		if !ok {
			continue
		}
		if field, ok := config.FieldByName(unreadable.Name); ok {
			problems[i] = fmt.Errorf("%s: %w", field.Tag.Get("env"), unreadable.Err)
		}
	}
	return errors.Join(problems...)
}
