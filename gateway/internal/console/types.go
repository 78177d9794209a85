package console

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
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

func listTypes(v *visit.Visit) (visit.Page, error) {
	types, err := v.API.Types(v.Context(), v.PageRequest(50))
	if err != nil {
		return visit.Page{}, err
	}
	page := typesPage{Older: v.Older(types.NextPageToken)}
	for _, one := range types.Items {
		page.Items = append(page.Items, typeRow{one, "/console/types/" + url.PathEscape(one.Type), checksText(one.ChecksPayload, one.ChecksResults)})
	}
	return visit.Page{Template: "types", Title: "Types", Data: page}, nil
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
func showType(v *visit.Visit) (visit.Page, error) {
	name := v.Request.PathValue("type")
	one, err := jobType(v, name, v.Request.URL.Query().Get("version"))
	if err != nil {
		return visit.Page{}, err
	}
	versions, err := v.API.TypeVersions(v.Context(), name, client.PageRequest{Size: api.MaxTypeVersions})
	if err != nil {
		return visit.Page{}, err
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
	return visit.Page{Template: "type", Title: one.Type, Data: page}, nil
}

// jobType reads a version of a type; the newest where version is empty.
func jobType(v *visit.Visit, name, version string) (api.JobType, error) {
	if version == "" {
		return v.API.Type(v.Context(), name)
	}
	number, err := strconv.Atoi(version)
	if err != nil {
		return api.JobType{}, problem.Invalid(problem.FieldError{Field: "version", Message: "must be a whole number from 1"})
	}
	return v.API.TypeVersion(v.Context(), name, number)
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
	if len(d.Costs) > 0 {
		add("Costs", forms.AmountsText(d.Costs))
	}
	if d.Retry != nil {
		if text, err := json.Marshal(d.Retry); err == nil {
			add("Retries", string(text))
		}
	}
	return all
}
