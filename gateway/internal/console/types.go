package console

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// typeRow is a job type in a list.
type typeRow struct {
	api.JobTypeSummary

	Path, Checks string
}

type typesPage struct {
	Items []typeRow
	Older string
}

func listTypes(v *visit) (shown, error) {
	types, err := v.api.Types(v.ctx(), v.page(50))
	if err != nil {
		return shown{}, err
	}
	page := typesPage{Older: v.older(types.NextPageToken)}
	for _, one := range types.Items {
		page.Items = append(page.Items, typeRow{one, "/console/types/" + url.PathEscape(one.Type), checksText(one.ChecksPayload, one.ChecksResults)})
	}
	return shown{template: "types", title: "Types", data: page}, nil
}

func checksText(payload, results bool) string {
	switch {
	case payload && results:
		return "payloads and results"
	case payload:
		return "payloads"
	case results:
		return "results"
	}
	return "nothing"
}

// versionLink leads to a version of a type that is kept.
type versionLink struct {
	api.JobTypeSummary

	Path, Checks string
	Current      bool
}

type typePage struct {
	api.JobType

	Checks, Jobs string
	// Old says that there is a newer version, at Newest.
	Old             bool
	Newest          string
	Defaults        []forms.Field
	Payload, Result document
	Examples        []document
	Versions        []versionLink
}

// showType needs two requests: the version, and which versions there are.
func showType(v *visit) (shown, error) {
	name := v.r.PathValue("type")
	one, err := v.jobType(name, v.r.URL.Query().Get("version"))
	if err != nil {
		return shown{}, err
	}
	versions, err := v.api.TypeVersions(v.ctx(), name, client.PageRequest{Size: api.MaxTypeVersions})
	if err != nil {
		return shown{}, err
	}
	here := "/console/types/" + url.PathEscape(one.Type)
	page := typePage{
		JobType: one, Checks: checksText(api.HasSchema(one.PayloadSchema), one.CheckResults),
		Jobs:     "/console/jobs?" + url.Values{"type": {one.Type}}.Encode(),
		Newest:   here,
		Defaults: typeDefaults(&one.Defaults),
		Payload:  newDocument("Schema of payloads", one.PayloadSchema, "Payloads are not checked."),
		Result:   newDocument("Schema of results", one.ResultSchema, "Results are not described."),
	}
	for i, example := range one.Examples {
		page.Examples = append(page.Examples, newDocument("Example "+strconv.Itoa(i+1), example, "null"))
	}
	for _, version := range versions.Items {
		page.Old = page.Old || version.Version > one.Version
		page.Versions = append(page.Versions, versionLink{
			version, here + "?version=" + strconv.Itoa(version.Version), checksText(version.ChecksPayload, version.ChecksResults), version.Version == one.Version,
		})
	}
	return shown{template: "type", title: one.Type, data: page}, nil
}

// jobType reads a version of a type; the newest where version is empty.
func (v *visit) jobType(name, version string) (api.JobType, error) {
	if version == "" {
		return v.api.Type(v.ctx(), name)
	}
	number, err := strconv.Atoi(version)
	if err != nil {
		return api.JobType{}, problem.Invalid(problem.FieldError{Field: "version", Message: "must be a whole number from 1"})
	}
	return v.api.TypeVersion(v.ctx(), name, number)
}

// typeDefaults are the defaults that are set, in words.
func typeDefaults(d *api.JobTypeDefaults) []forms.Field {
	var all []forms.Field
	add := func(label, now string) { all = append(all, forms.Field{Label: label, Now: now}) }
	if d.Queue != nil {
		add("Queue", *d.Queue)
	}
	if d.Priority != nil {
		add("Priority", strconv.Itoa(*d.Priority))
	}
	if d.MaxAttempts != nil {
		add("Attempts at most", strconv.Itoa(*d.MaxAttempts))
	}
	if d.TimeoutMS != nil {
		add("Time limit of an attempt", view.Milliseconds(*d.TimeoutMS))
	}
	if d.Retry != nil {
		if text, err := json.Marshal(d.Retry); err == nil {
			add("Retries", string(text))
		}
	}
	return all
}
