// Package forms reads and fills the inputs of the console's forms: numbers, durations and limits.
package forms
