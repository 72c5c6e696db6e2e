pub struct ScopeSpec;
