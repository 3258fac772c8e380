-- A condition on series; an empty parameter does not filter.
({repo:String} = '' OR repo = {repo:String})
    AND ({benchmark:String} = '' OR benchmark = {benchmark:String})
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({metrics:Array(String)}) OR has({metrics:Array(String)}, metric))
    AND ({device:String} = '' OR device = {device:String})
    AND ({arch:String} = '' OR position(arch, {arch:String}) > 0)
