// Package jobtype checks the payloads and results of jobs against the JSON Schemas (draft 2020-12) of their types.
//
//	Compile   a schema's text ─▶ a Schema, within bounds                    (compile.go)
//	Check     a value ─▶ where it does not fit, within a number of steps    (schema.go, steps.go)
//	Checker   the types of tenants, cached; compiled schemas, cached; one
//	          check of a tenant at a time                                   (checker.go, compiled.go)
//
// Schemas are written by tenants, and may be hostile. What holds:
//   - A check takes a bounded number of steps, whatever the schema and the value: the validator cannot be
//     interrupted, so each of its visits is counted, and one too many ends the check. A value that is too costly
//     to check does not fit.
//   - A tenant has one check at a time in a process. Others do not wait for it.
//   - Nothing outside of a schema is loaded.
package jobtype
